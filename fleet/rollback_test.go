package fleet_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// fourStages has two clusters in each of four stages.
func fourStages(t *testing.T) *engineEnv {
	w := &engineEnv{t: t, store: memory.NewStore(), fleet: memory.NewFleet()}
	w.source = memory.NewSource(namespace("test-namespace"), configMap("test-cm", "v0"))
	for stage := 1; stage <= 4; stage++ {
		for _, c := range []string{"a", "b"} {
			w.addTo(stage, c)
		}
	}
	return w
}

func (w *engineEnv) addTo(stage int, name string) {
	w.fleet.Add(placement.Cluster{Name: fmt.Sprintf("s%d%s", stage, name), Labels: map[string]string{"stage": fmt.Sprint(stage), "environment": "e" + name}})
}

// inStages returns a strategy for some stages of fourStages with rollback policy b.
func inStages(b *stages.RollbackPolicy, numbers ...int) stages.Strategy {
	s := stages.Strategy{Attempts: 1, Unassigned: stages.UnassignedExclude, Rollback: b}
	for _, n := range numbers {
		s.Stages = append(s.Stages, stages.Stage{
			Name: fmt.Sprint("s", n), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": fmt.Sprint(n)}}, MaxConcurrency: percent("100%"),
		})
	}
	return s
}

// rolling returns a placement of fourStages and an engine that drives its runs.
func rolling(t *testing.T, change func(*fleet.Placement)) (*engineEnv, *fleet.Engine) {
	t.Helper()
	w := fourStages(t)
	e := w.engine(w.store, "one")
	p := tutorialPlacement()
	if change != nil {
		change(&p)
	}
	must(0, e.PutPlacement(t.Context(), p))(t)
	t.Cleanup(running(t, e))
	return w, e
}

func (w *engineEnv) values() map[string]string {
	out := map[string]string{}
	for c := range w.fleet.Clusters(w.t.Context()) {
		out[c.Name] = w.value(c.Name)
		if strings.Contains(out[c.Name], "not found") {
			out[c.Name] = "nothing"
		}
	}
	return out
}

// failsAt makes a cluster refuse a value.
func (w *engineEnv) failsAt(cluster, value string) {
	w.fleet.Cluster(cluster).Refuse(func(obj *unstructured.Unstructured) error {
		if v, _, _ := unstructured.NestedString(obj.Object, "data", "key"); v == value {
			return errors.New("not admitted")
		}
		return nil
	})
}

// endOfRollback waits for the end of the rollback of a run.
func endOfRollback(t *testing.T, e *fleet.Engine, of string) fleet.Status {
	t.Helper()
	endOf(t, e, of)
	for range 600 {
		b := must(e.Run(of).RollbackStatus(t.Context()))(t)
		if b.Refused != "" {
			t.Fatalf("run %s is not taken back: %s", of, b.Refused)
		}
		if b.By != "" && !b.Pending {
			return endOf(t, e, b.By)
		}
		time.Sleep(time.Second)
	}
	t.Fatalf("run %s is not taken back", of)
	return fleet.Status{}
}

// order returns the clusters of a run in the order of their starts.
func order(t *testing.T, e *fleet.Engine, run string) (out []string) {
	for _, ev := range must(e.Run(run).History(t.Context(), 0))(t).Events {
		if ev.Type == stages.ClusterStarted {
			out = append(out, ev.Cluster)
		}
	}
	return out
}

// The budget is exceeded in the third of four stages. Every changed cluster goes back to its own
// previous revision, with the overrides of that time, the latest stage first. A cluster that had
// nothing is cleaned, and clusters that the run had not reached are not touched.
func TestRollbackOfAFailureInTheThirdStage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := rolling(t, func(p *fleet.Placement) { p.Overrides = []placement.Override{replaceFor("eb", "old")} })
		ranTo(t, e, fleet.RunSpec{Name: "r0", Placement: ep, Strategy: inStages(nil, 1, 2, 3, 4)}, stages.Completed)
		must(0, e.PutPlacement(t.Context(), tutorialPlacement()))(t) // without the override
		w.holds("v1")
		ranTo(t, e, fleet.RunSpec{Name: "r1", Placement: ep, Strategy: inStages(nil, 1)}, stages.Completed)
		w.addTo(3, "new")
		w.failsAt("s3a", "v2")
		w.holds("v2")
		before := w.members()
		spec := fleet.RunSpec{Name: "r2", Placement: ep, Strategy: inStages(&stages.RollbackPolicy{}, 1, 2, 3, 4), Starter: approval.Identity{Name: "ann"}}
		must(e.CreateRun(t.Context(), spec))(t)
		back := endOfRollback(t, e, "r2")
		if s := endOf(t, e, "r2"); s.Run.State != stages.Failed || back.Run.State != stages.Completed {
			t.Fatalf("r2 is %s, %s is %s: %s", s.Run.State, back.Run.Name, back.Run.State, back.Run.Reason)
		}
		want := map[string]string{"s1a": "v1", "s1b": "v1", "s2a": "v0", "s2b": "old", "s3a": "v0", "s3b": "old", "s4a": "v0", "s4b": "old", "s3new": "nothing"}
		if d := cmp.Diff(want, w.values()); d != "" {
			t.Errorf("values (-want +got):\n%s", d)
		}
		if d := cmp.Diff([]string{"s3b", "s3a", "s3new", "s2b", "s2a", "s1b", "s1a"}, order(t, e, back.Run.Name)); d != "" {
			t.Errorf("order (-want +got):\n%s", d)
		}
		after := w.members()
		for _, c := range []string{"s4a", "s4b"} {
			if d := cmp.Diff(before[c], after[c]); d != "" {
				t.Errorf("%s was changed:\n%s", c, d)
			}
		}
		if back.Run.Name != "r2-rollback" || back.Run.Starter.Name != "ann" || back.Plan.Rollback.Run != "r2" || back.Plan.Index != 1 {
			t.Errorf("the run that takes back: %+v of %+v", back.Run, back.Plan.Rollback)
		}
		for c := range placedOn(t, e, ep) {
			if want := map[byte]int{'1': 1}[c.Name[1]]; c.Index != want || c.Tried != want {
				t.Errorf("placed: %+v, want index %d", c, want)
			}
		}
		x := must(e.Run("r2").Explain(t.Context(), "s1a"))(t)
		if want := "r2-rollback does"; !strings.HasSuffix(x.Reason, want) {
			t.Errorf("explanation: %s, want %s at its end", x.Reason, want)
		}
	})
}
