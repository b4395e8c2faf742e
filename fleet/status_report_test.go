package fleet_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// reports holds the last status report of each cluster, and the number of reports.
type reports struct {
	mu   sync.Mutex
	last map[string]apply.StatusReport
	n    int
}

func (r *reports) take(s apply.StatusReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[string]apply.StatusReport{}
	}
	r.last[s.Cluster], r.n = s, r.n+1
}

func (r *reports) of(cluster string) (last apply.StatusReport, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[cluster], r.n
}

// say sets the status of the ConfigMap of a member.
func (w *engineEnv) say(cluster, word string) {
	w.t.Helper()
	if err := w.fleet.Cluster(cluster).SetStatus(testCM, map[string]any{"word": word}); err != nil {
		w.t.Fatal(err)
	}
}

// TestTheStatusOfObjectsIsReported: a placement with ReportStatus reports the status of its objects
// on the clusters after each change, even if nothing else requires a watch. The reports stop when
// ReportStatus is unset.
func TestTheStatusOfObjectsIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineEnv(t)
		var got reports
		e := w.newEngine(fleet.Config{Name: "a", Reported: got.take})
		p := tutorialPlacement()
		p.ReportStatus = true
		declare := func() {
			t.Helper()
			if err := e.PutPlacement(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Second)
		}
		declare()
		defer running(t, e)()
		if s := runTo(t, e, "one", inOneStage()); s.Run.State != stages.Completed {
			t.Fatalf("run one is %s: %s", s.Run.State, s.Run.Reason)
		}
		for _, word := range []string{"one", "two"} {
			w.say("member2", word)
			time.Sleep(2 * time.Second)
			last, _ := got.of("member2")
			if len(last.Objects) != 1 || last.Objects[0].ID != testCM || last.Objects[0].Status["word"] != word || last.Placement != p.Name || last.Revision == "" {
				t.Fatalf("after it said %s: %+v", word, last)
			}
		}
		if last, _ := got.of("member1"); len(last.Objects) != 0 {
			t.Errorf("of member1, where nothing has a status: %+v", last)
		}
		p.ApplyStrategy.WhenToApply, p.ReportStatus = apply.IfNotDrifted, false
		declare()
		_, before := got.of("member2")
		w.say("member2", "three")
		time.Sleep(5 * time.Second)
		if _, after := got.of("member2"); after != before {
			t.Errorf("%d reports came of a placement that does not ask for them", after-before)
		}
	})
}

// TestStatusReportMarksEnvelopeObjects: a report marks objects from envelopes, because their
// counterpart in the source is the envelope.
func TestStatusReportMarksEnvelopeObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineEnv(t)
		var got reports
		e := w.newEngine(fleet.Config{Name: "a", Reported: got.take})
		p := tutorialPlacement()
		p.ReportStatus = true
		if err := e.PutPlacement(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		defer running(t, e)()
		w.puts(enveloped("hard", budget("10")))
		if s := runTo(t, e, "one", inOneStage()); s.Run.State != stages.Completed {
			t.Fatalf("run one is %s: %s", s.Run.State, s.Run.Reason)
		}
		w.say("member1", "one")
		limits := snapshot.ID{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget", Namespace: "test-namespace", Name: "limits"}
		if err := w.fleet.Cluster("member1").SetStatus(limits, map[string]any{"word": "two"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		last, _ := got.of("member1")
		brought := map[snapshot.ID]bool{}
		for _, o := range last.Objects {
			brought[o.ID] = o.Enveloped
		}
		if diff := cmp.Diff(map[snapshot.ID]bool{testCM: false, limits: true}, brought); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// TestStatusReportOmitsForeignObjects: an existing object that is not taken over is in no report,
// and neither is any object of a placement that only reports differences.
func TestStatusReportOmitsForeignObjects(t *testing.T) {
	for name, s := range map[string]apply.Strategy{
		"never taken over": {WhenToTakeOver: apply.Never, WhenToApply: apply.Always}, "differences only": {Type: apply.ReportDiff},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newEngineEnv(t)
				for _, obj := range []*unstructured.Unstructured{namespace("test-namespace"), configMap("test-cm", "theirs")} {
					if err := w.fleet.Cluster("member1").Update(obj); err != nil {
						t.Fatal(err)
					}
				}
				w.say("member1", "theirs")
				var got reports
				e := w.newEngine(fleet.Config{Name: "a", Reported: got.take})
				p := tutorialPlacement()
				p.ReportStatus, p.ApplyStrategy = true, s
				if err := e.PutPlacement(t.Context(), p); err != nil {
					t.Fatal(err)
				}
				defer running(t, e)()
				if _, err := e.CreateRun(t.Context(), fleet.RunSpec{Name: "one", Placement: p.Name, Strategy: inOneStage()}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if last, _ := got.of("member1"); len(last.Objects) != 0 {
					t.Errorf("%+v", last)
				}
			})
		})
	}
}
