package fleet_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

func secretOf(name, value string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"namespace": "test-namespace", "name": name},
		"data": map[string]any{"password": value},
	}}
}

// newRun returns the spec of a run of the source's current content.
func newRun() fleet.RunSpec { return fleet.RunSpec{Placement: ep, Strategy: inOneStage()} }

// differs returns the differences that a run would make, one line for each, and checks that the
// preview wrote nothing.
func differs(t *testing.T, w *engineEnv, e *fleet.Engine, only ...string) []string {
	t.Helper()
	before, members := dump(t, w.store), w.members()
	d := must(e.Preview(t.Context(), newRun()))(t)
	var lines []string
	tag := regexp.MustCompile(`\(redacted [0-9a-f]+\)`)
	for c, err := range d.Diff(t.Context(), only...) {
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range linesOf(&c) {
			lines = append(lines, tag.ReplaceAllString(l, "(redacted)"))
		}
	}
	if d := cmp.Diff(before, dump(t, w.store)); d != "" {
		t.Errorf("looking wrote to the store:\n%s", d)
	}
	if d := cmp.Diff(members, w.members()); d != "" {
		t.Errorf("looking wrote to members:\n%s", d)
	}
	slices.Sort(lines)
	return lines
}

func linesOf(c *fleet.ClusterDiff) (lines []string) {
	for _, o := range c.Objects {
		line := fmt.Sprintf("%s %s %s %s", c.Cluster, o.Reason, o.Kind, o.Name)
		if len(o.Differences) == 0 || o.State != "Present" {
			lines = append(lines, line)
			continue
		}
		for _, d := range o.Differences {
			lines = append(lines, fmt.Sprintf("%s %s %s hub=%s member=%s", line, d.Class, d.Path, d.Hub, d.Member))
		}
	}
	for _, p := range c.Problems {
		lines = append(lines, c.Cluster+" problem "+p)
	}
	return lines
}

func wantLines(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// A preview reports the differences that a run would make, cluster by cluster: new objects, changes
// by the hub, by an override or by an edit on the cluster, objects that the hub dropped, and
// removals. A run of that plan makes exactly these changes, and then nothing differs.
func TestDiffEqualsTheChangesOfTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, nil)
		defer running(t, e)()
		var created []string
		for _, c := range []string{"member1", "member2", "member3"} {
			w.fleet.Cluster(c).ManagedFields(true)
			created = append(created, c+" ToCreate ConfigMap test-cm", c+" ToCreate Namespace test-namespace")
		}
		wantLines(t, "nothing was placed", differs(t, w, e), created...)
		cm := configMap("test-cm", "value1")
		cm.Object["data"].(map[string]any)["dropped"] = "x"
		w.puts(cm, secretOf("s", "b2xk"))
		runTo(t, e, "one", inOneStage())
		wantLines(t, "all is as it was applied", differs(t, w, e))

		w.puts(configMap("test-cm", "value2"), secretOf("s", "bmV3"), configMap("new", "n"))
		p := tutorialPlacement()
		p.Policy.Required = []placement.Term{{LabelSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "order", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"1"}}, // all but member3
		}}}}
		drop := replaceFor("staging", "")
		drop.Name, drop.Rules[0].Type, drop.Rules[0].Patches = "drop", placement.Delete, nil
		drop.Selectors[0] = placement.ObjectSelector{Version: "v1", Kind: "Secret", Name: "s"}
		p.Overrides = []placement.Override{replaceFor("canary", "mine"), drop}
		if err := e.PutPlacement(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		w.edit("member2", set("key", "edited"))
		d := must(e.Preview(t.Context(), newRun()))(t)
		wantLines(t, "what changes", differs(t, w, e),
			`member1 ToChange ConfigMap test-cm Changed /data/key hub="mine" member="value1"`,
			`member1 ToChange ConfigMap test-cm Stale /data/dropped hub= member="x"`,
			`member1 ToChange Secret s Changed /data/password hub="(redacted)" member="(redacted)"`,
			`member1 ToCreate ConfigMap new`,
			`member2 ToChange ConfigMap test-cm Changed /data/key hub="value2" member="edited"`,
			`member2 ToChange ConfigMap test-cm Stale /data/dropped hub= member="x"`,
			`member2 ToCreate ConfigMap new`,
			`member2 ToRemove Secret s`,
			`member3 ToRemove ConfigMap test-cm`,
			`member3 ToRemove Namespace test-namespace`,
			`member3 ToRemove Secret s`,
		)
		spec := newRun()
		spec.Name, spec.Plan = "two", d.Plan.Digest
		must(e.CreateRun(t.Context(), spec))(t)
		endOf(t, e, "two")
		wantLines(t, "the run did it", differs(t, w, e))
	})
}

// The differences are those of the named plan, or the call fails.
func TestDiffIsBoundToThePlan(t *testing.T) {
	w, e := declared(t, nil)
	spec := newRun()
	spec.Plan = must(e.Preview(t.Context(), spec))(t).Plan.Digest
	if d := must(e.Preview(t.Context(), spec))(t); d.Plan.Digest != spec.Plan {
		t.Errorf("the plan is %s, want %s", d.Plan.Digest, spec.Plan)
	}
	w.holds("other")
	if _, err := e.Preview(t.Context(), spec); !errors.Is(err, errdef.ErrPlanChanged) || !strings.Contains(err.Error(), spec.Plan) {
		t.Errorf("the source has changed, the error is %v", err)
	}
}

// Differences that the strategy of the placement leaves alone, and objects of another placement,
// are reported with the reason and not counted as changes.
func TestDiffReportsObjectsThatTheRunLeavesAlone(t *testing.T) {
	for name, c := range map[string]struct {
		strategy apply.Strategy
		want     []string
		problem  string
	}{
		"always":         {apply.Strategy{}, []string{`member1 ToChange ConfigMap test-cm Changed /data/key hub="value1" member="edited"`}, ""},
		"if not drifted": {apply.Strategy{WhenToApply: apply.IfNotDrifted}, []string{`member1 FoundDrifts ConfigMap test-cm Changed /data/key hub="value1" member="edited"`}, "whenToApply is IfNotDrifted"},
		"only reports":   {apply.Strategy{Type: apply.ReportDiff}, []string{`member1 FoundDiff ConfigMap test-cm Changed /data/key hub="value1" member="edited"`}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _, stop := placed(t, apply.Strategy{})
				stop()
				e := w.engine(w.store, "b")
				w.edit("member1", set("key", "edited"))
				p := tutorialPlacement()
				p.ApplyStrategy = c.strategy
				if err := e.PutPlacement(t.Context(), p); err != nil {
					t.Fatal(err)
				}
				problems := withoutProblems(t, differs(t, w, e), c.want)
				if (c.problem == "") != (len(problems) == 0) || !strings.Contains(strings.Join(problems, "\n"), c.problem) {
					t.Errorf("problems %q, want %q", problems, c.problem)
				}
			})
		})
	}
}

// withoutProblems checks the lines about problems and returns the others.
func withoutProblems(t *testing.T, lines, want []string) (problems []string) {
	t.Helper()
	lines = slices.DeleteFunc(slices.Clone(lines), func(l string) bool {
		is := strings.Contains(l, " problem ")
		if is {
			problems = append(problems, l)
		}
		return is
	})
	wantLines(t, "what differs", lines, want...)
	return problems
}

// The differences report existing objects that must not be taken over, objects of another
// placement, and adopted objects, each as such.
func TestADifferenceNamesTheOwnersOfObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, func(p *fleet.Placement) { p.ApplyStrategy.WhenToTakeOver = apply.Never })
		for _, obj := range []*unstructured.Unstructured{namespace("test-namespace"), configMap("test-cm", "theirs")} {
			if err := w.fleet.Cluster("member1").Update(obj); err != nil {
				t.Fatal(err)
			}
		}
		problems := withoutProblems(t, differs(t, w, e, "member1"), []string{
			`member1 NotTakenOver ConfigMap test-cm Changed /data/key hub="value1" member="theirs"`,
		})
		if len(problems) != 1 || !strings.Contains(problems[0], "whenToTakeOver is Never") {
			t.Errorf("problems %q", problems)
		}

		if err := e.PutPlacement(t.Context(), tutorialPlacement()); err != nil {
			t.Fatal(err)
		}
		defer running(t, e)()
		runTo(t, e, "one", inOneStage())
		w.source.Delete(testCM)
		wantLines(t, "member1 had it before", differs(t, w, e), "member1 ToRelease ConfigMap test-cm", "member2 ToRemove ConfigMap test-cm", "member3 ToRemove ConfigMap test-cm")

		w.holds("value2")
		other := tutorialPlacement()
		other.Name = "other"
		if err := e.PutPlacement(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		d := must(e.Preview(t.Context(), fleet.RunSpec{Placement: "other", Strategy: inOneStage()}))(t)
		for c, err := range d.Diff(t.Context(), "member2") {
			if err != nil || len(c.Problems) == 0 || !strings.Contains(c.Problems[0], "applied by placement "+ep) {
				t.Errorf("%v, %v", c.Problems, err)
			}
		}
	})
}

// An unreadable cluster is reported with the reason and delays no other cluster. A cluster outside
// of the plan is an error.
func TestADifferenceOfAClusterThatCannotBeReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, nil)
		w.fleet.SetDown("member2", true)
		d := must(e.Preview(t.Context(), newRun()))(t)
		states := map[string]string{}
		for c, err := range d.Diff(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			states[c.Cluster] = fmt.Sprintf("%s %d %d", c.State, c.Total, len(c.Problems))
		}
		if d := cmp.Diff(map[string]string{"member1": "Compared 2 0", "member2": "Unknown 0 1", "member3": "Compared 2 0"}, states); d != "" {
			t.Error(d)
		}
		for _, err := range d.Diff(t.Context(), "missing", "member1") {
			if !errors.Is(err, backend.ErrNotFound) || !strings.Contains(err.Error(), "missing") {
				t.Errorf("error %v", err)
			}
		}
		if _, err := d.Content(t.Context(), "missing"); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("error %v", err)
		}
	})
}

// For a cluster with very many objects, the first 100 are reported with the total number. Nothing
// of a Secret is shown. The digest of the plan gives access to the content of each cluster.
func TestADifferenceIsBoundedAndTellsNoSecret(t *testing.T) {
	w, e := declared(t, func(p *fleet.Placement) { p.Overrides = []placement.Override{replaceFor("canary", "mine")} })
	objs := []*unstructured.Unstructured{secretOf("s", "aHVzaA==")}
	for i := range 150 {
		objs = append(objs, configMap(fmt.Sprint("c", i), "v"))
	}
	w.puts(objs...)
	d := must(e.Preview(t.Context(), newRun()))(t)
	for c, err := range d.Diff(t.Context()) {
		if err != nil || len(c.Objects) != 100 || c.Total != 153 {
			t.Errorf("%s: %d of %d objects, %v", c.Cluster, len(c.Objects), c.Total, err)
		}
		b, err := json.Marshal(c)
		if err != nil || strings.Contains(string(b), "aHVzaA") {
			t.Errorf("%s tells a secret (%v)", c.Cluster, err)
		}
		set := must(d.Content(t.Context(), c.Cluster))(t)
		if set.Digest != c.Revision || len(set.Bodies) != 153 || snapshot.Digest(set.Root().Encode()) != c.Revision {
			t.Errorf("%s would get %s with %d objects, want %s", c.Cluster, set.Digest, len(set.Bodies), c.Revision)
		}
		i := slices.IndexFunc(set.Items, func(i snapshot.Item) bool { return i.Name == "test-cm" })
		if mine := strings.Contains(string(set.Bodies[i]), `"mine"`); mine != (c.Cluster != "member2") {
			t.Errorf("%s gets %s", c.Cluster, set.Bodies[i])
		}
	}
	for range d.Diff(t.Context()) {
		break // a client that stops early leaves nothing behind
	}
}

// Labels are read when the plan is made: a cluster whose labels change during the run gets the
// approved content.
func TestLabelsAreReadWhenThePlanIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := replaceFor("canary", `${MEMBER-CLUSTER-LABEL-KEY-order}`)
		w, e := declared(t, func(p *fleet.Placement) { p.Overrides = []placement.Override{o} })
		w.capture(e, "v0")
		must(e.CreateRun(t.Context(), specOf("r", 0)))(t)
		w.fleet.Relabel("member1", map[string]string{"environment": "staging", "order": "9"})
		w.fleet.Relabel("member2", map[string]string{"environment": "canary", "order": "9"})
		defer running(t, e)()
		if s := endOf(t, e, "r"); s.Run.State != stages.Completed {
			t.Fatalf("the run is %s: %s", s.Run.State, s.Run.Reason)
		}
		if m1, m2, m3 := w.value("member1"), w.value("member2"), w.value("member3"); m1 != "2" || m2 != "v0" || m3 != "1" {
			t.Errorf("the members hold %q, %q and %q", m1, m2, m3)
		}
	})
}
