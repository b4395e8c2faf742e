package fleet_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

var testCM = snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "test-namespace", Name: "test-cm"}

// inOneStage returns a strategy that updates all clusters at once.
func inOneStage(before ...stages.Task) stages.Strategy {
	return stages.Strategy{Name: "all", Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}, Before: before}}}
}

// placed returns an environment and a running engine. The members have value1 of a placement with
// this strategy, from run "one".
func placed(t *testing.T, s apply.Strategy) (*engineEnv, *fleet.Engine, func()) {
	t.Helper()
	w := newEngineEnv(t)
	e := w.engine(w.store, "a")
	p := tutorialPlacement()
	p.ApplyStrategy = s
	if err := e.PutPlacement(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	stop := running(t, e)
	if s := runTo(t, e, "one", inOneStage()); s.Run.State != stages.Completed {
		t.Fatalf("run one is %s: %s", s.Run.State, s.Run.Reason)
	}
	return w, e, stop
}

func runTo(t *testing.T, e *fleet.Engine, name string, s stages.Strategy) fleet.Status {
	t.Helper()
	if _, err := e.CreateRun(t.Context(), fleet.RunSpec{Name: name, Placement: "example-placement", Strategy: s}); err != nil {
		t.Fatal(err)
	}
	got, err := e.Run(name).Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// edit changes the ConfigMap of a member like a user of kubectl.
func (w *engineEnv) edit(cluster string, change func(data map[string]any)) {
	w.t.Helper()
	c := w.fleet.Cluster(cluster)
	obj, err := c.Get(testCM)
	if err != nil {
		w.t.Fatal(err)
	}
	data, _, _ := unstructured.NestedMap(obj.Object, "data")
	change(data)
	obj.Object["data"] = data
	if err := c.Update(obj); err != nil {
		w.t.Fatal(err)
	}
}

func set(key, value string) func(map[string]any) {
	return func(data map[string]any) { data[key] = value }
}

// reportOf returns a drift report as one line for each difference.
func reportOf(t *testing.T, e *fleet.Engine, o fleet.DriftOptions) (lines []string, all []drift.ClusterReport) {
	t.Helper()
	for c, err := range e.Placement("example-placement").Drift(t.Context(), o) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	for _, g := range fleet.GroupDrift(all) {
		for _, o := range g.Objects {
			for _, d := range o.Differences {
				lines = append(lines, fmt.Sprintf("%s %s %s %s %s hub=%s member=%s", strings.Join(g.Clusters, ","), o.Name, o.Reason, d.Class, d.Path, d.Hub, d.Member))
			}
		}
	}
	return lines, all
}

// A report compares each cluster with the content that its ledger names, writes nothing to a
// member, and groups clusters with the same differences.
func TestDriftReportGroupsClustersAndWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := placed(t, apply.Strategy{})
		defer stop()
		if lines, all := reportOf(t, e, fleet.DriftOptions{Comparison: drift.Full}); len(lines) > 0 || len(all) != 3 {
			t.Errorf("nothing was changed, the report says %v of %d clusters", lines, len(all))
		}
		w.edit("member1", set("key", "mine"))
		w.edit("member3", set("key", "mine"))
		w.edit("member2", set("extra", "x"))
		for _, c := range []string{"member1", "member2", "member3"} {
			w.fleet.Cluster(c).Record(true)
		}
		partial, _ := reportOf(t, e, fleet.DriftOptions{})
		if d := cmp.Diff([]string{`member1,member3 test-cm FoundDrifts Changed /data/key hub="value1" member="mine"`}, partial); d != "" {
			t.Errorf("partial (-want +got):\n%s", d)
		}
		full, _ := reportOf(t, e, fleet.DriftOptions{Comparison: drift.Full, Clusters: []string{"member2"}})
		if d := cmp.Diff([]string{`member2 test-cm FoundDrifts Unmanaged /data/extra hub= member="x"`}, full); d != "" {
			t.Errorf("full (-want +got):\n%s", d)
		}
		for _, c := range []string{"member1", "member2", "member3"} {
			if log := w.fleet.Cluster(c).Log(); len(log) > 0 {
				t.Errorf("%s was written to: %v", c, log)
			}
		}
	})
}

// A missing object, an object that is being deleted, and a cluster that never got the placement are
// separate states (T10 of the cases).
func TestDriftReportSeparatesMissingFromNeverPlaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := placed(t, apply.Strategy{})
		defer stop()
		if err := w.fleet.Cluster("member1").Delete(testCM); err != nil {
			t.Fatal(err)
		}
		w.fleet.Add(placement.Cluster{Name: "member4"})
		_, all := reportOf(t, e, fleet.DriftOptions{})
		got := map[string]string{}
		for _, c := range all {
			got[c.Cluster] = string(c.State)
			for _, o := range c.Objects {
				got[c.Cluster] += fmt.Sprintf(" %s %s %d", o.Name, o.State, o.Total)
			}
		}
		want := map[string]string{"member1": "Compared test-cm Missing 1", "member2": "Compared", "member3": "Compared", "member4": "NotPlaced"}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}

// An unreachable cluster is reported, and delays no other cluster.
func TestADriftReportOfAClusterThatIsDownSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := placed(t, apply.Strategy{})
		defer stop()
		w.fleet.Add(placement.Cluster{Name: "member2", UID: "another"})
		_, all := reportOf(t, e, fleet.DriftOptions{Clusters: []string{"member2"}})
		if len(all) != 1 || all[0].State == drift.Compared {
			t.Errorf("%+v", all)
		}
	})
}

// The table of the seed: the result of an edit on a member by whenToApply and comparisonOption, for
// a managed and for an unmanaged field.
func TestTheTableOfWhenToApply(t *testing.T) {
	for _, c := range []struct {
		when    apply.WhenToApply
		compare drift.Comparison
		managed bool
		// back reports whether the edit is overwritten, reported whether it is reported.
		back, reported bool
	}{
		{apply.IfNotDrifted, drift.Partial, true, false, true},
		{apply.IfNotDrifted, drift.Partial, false, false, false},
		{apply.IfNotDrifted, drift.Full, true, false, true},
		{apply.IfNotDrifted, drift.Full, false, false, true},
		{apply.Always, drift.Partial, true, true, false},
		{apply.Always, drift.Partial, false, false, false},
		{apply.Always, drift.Full, true, true, false},
		{apply.Always, drift.Full, false, false, true},
	} {
		name := fmt.Sprintf("%s %s managed=%v", c.when, c.compare, c.managed)
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, e, stop := placed(t, apply.Strategy{WhenToApply: c.when, ComparisonOption: c.compare})
				defer stop()
				key := "extra"
				if c.managed {
					key = "key"
				}
				w.edit("member2", set(key, "theirs"))
				time.Sleep(2 * time.Second)
				obj, err := w.fleet.Cluster("member2").Get(testCM)
				if err != nil {
					t.Fatal(err)
				}
				now, _, _ := unstructured.NestedString(obj.Object, "data", key)
				if back := now != "theirs"; back != c.back {
					t.Errorf("the field is %q", now)
				}
				seen, err := recordedDrift(t.Context(), e.Placement("example-placement"))
				if err != nil {
					t.Fatal(err)
				}
				if reported := len(seen) == 1 && seen[0].Cluster == "member2" && seen[0].Total == 1; reported != c.reported {
					t.Errorf("reported: %+v", seen)
				}
			})
		})
	}
}

// An edit under IfNotDrifted prevents a run from applying the same version again, and the run says
// so. A new version is applied in any case.
func TestIfNotDriftedKeepsAnEditUntilTheHubChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e, stop := placed(t, apply.Strategy{WhenToApply: apply.IfNotDrifted})
		defer stop()
		w.edit("member2", set("key", "theirs"))
		s := inOneStage()
		s.Profile = stages.ClusterUpdate
		again := runTo(t, e, "two", s)
		if again.Run.State != stages.Failed {
			t.Errorf("run two is %s", again.Run.State)
		}
		x, err := e.Run("two").Explain(t.Context(), "member2")
		if err != nil || !strings.Contains(x.Reason, "ConfigMap.v1 test-namespace/test-cm has drifted") || strings.Contains(x.Reason, "theirs") {
			t.Errorf("%+v, %v", x, err)
		}
		if got := w.value("member2"); got != "theirs" {
			t.Errorf("member2 has %s", got)
		}
		if err := w.source.Put(configMap("test-cm", "value2")); err != nil {
			t.Fatal(err)
		}
		if got := runTo(t, e, "three", inOneStage()); got.Run.State != stages.Completed {
			t.Errorf("run three is %s: %s", got.Run.State, got.Run.Reason)
		}
		if got := w.value("member2"); got != "value2" {
			t.Errorf("member2 has %s", got)
		}
	})
}

// Existing objects are taken over according to the strategy.
func TestTheTableOfWhenToTakeOver(t *testing.T) {
	for _, c := range []struct {
		when    apply.WhenToTakeOver
		differs bool
		value   string
		reason  drift.Reason
	}{
		{"", true, "value1", ""},
		{apply.TakeOverAlways, true, "value1", ""},
		{apply.IfNoDiff, false, "value1", ""},
		{apply.IfNoDiff, true, "theirs", drift.FailedToTakeOver},
		{apply.Never, true, "theirs", drift.NotTakenOver},
	} {
		t.Run(fmt.Sprintf("%s differs=%v", c.when, c.differs), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newEngineEnv(t)
				e := w.engine(w.store, "a")
				p := tutorialPlacement()
				p.ApplyStrategy = apply.Strategy{WhenToApply: apply.Always, WhenToTakeOver: c.when}
				value := "value1"
				if c.differs {
					value = "theirs"
				}
				for _, obj := range []*unstructured.Unstructured{namespace("test-namespace"), configMap("test-cm", value)} {
					if err := w.fleet.Cluster("member2").Update(obj); err != nil {
						t.Fatal(err)
					}
				}
				if err := e.PutPlacement(t.Context(), p); err != nil {
					t.Fatal(err)
				}
				defer running(t, e)()
				s := inOneStage()
				s.Profile = stages.ClusterUpdate
				got := runTo(t, e, "one", s)
				if failed := got.Run.State == stages.Failed; failed != (c.reason != "") {
					t.Errorf("the run is %s: %s", got.Run.State, got.Run.Reason)
				}
				if v := w.value("member2"); v != c.value {
					t.Errorf("member2 has %s, want %s", v, c.value)
				}
				seen, err := recordedDrift(t.Context(), e.Placement("example-placement"))
				if err != nil {
					t.Fatal(err)
				}
				var reason drift.Reason
				for _, s := range seen {
					for _, o := range s.Objects {
						if o.Name == "test-cm" {
							reason = o.Reason
						}
					}
				}
				if reason != c.reason {
					t.Errorf("told %q, want %q: %+v", reason, c.reason, seen)
				}
			})
		})
	}
}

// A run of a placement that only reports writes nothing to any member, whatever WhenToTakeOver
// permits, and completes (T1 and T2 of the cases).
func TestARunThatOnlyReportsWritesNothing(t *testing.T) {
	for _, take := range []apply.WhenToTakeOver{apply.TakeOverAlways, apply.Never, apply.IfNoDiff} {
		t.Run(string(take), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newEngineEnv(t)
				for _, obj := range []*unstructured.Unstructured{namespace("test-namespace"), configMap("test-cm", "theirs")} {
					if err := w.fleet.Cluster("member2").Update(obj); err != nil {
						t.Fatal(err)
					}
				}
				e := w.engine(w.store, "a")
				p := tutorialPlacement()
				p.ApplyStrategy = apply.Strategy{Type: apply.ReportDiff, WhenToTakeOver: take}
				if err := e.PutPlacement(t.Context(), p); err != nil {
					t.Fatal(err)
				}
				for _, c := range []string{"member1", "member2", "member3"} {
					w.fleet.Cluster(c).Record(true)
				}
				defer running(t, e)()
				if got := runTo(t, e, "one", inOneStage()); got.Run.State != stages.Completed {
					t.Errorf("the run is %s: %s", got.Run.State, got.Run.Reason)
				}
				time.Sleep(time.Minute)
				seen, err := recordedDrift(t.Context(), e.Placement("example-placement"))
				if err != nil || len(seen) != 3 {
					t.Fatalf("%+v, %v", seen, err)
				}
				for _, s := range seen {
					if want := map[string]int{"member1": 2, "member2": 1, "member3": 2}[s.Cluster]; s.Total != want || s.Objects[0].Reason != drift.FoundDiff {
						t.Errorf("%s: %d objects differ, want %d: %+v", s.Cluster, s.Total, want, s.Objects)
					}
				}
				for _, c := range []string{"member1", "member2", "member3"} {
					if log := w.fleet.Cluster(c).Log(); len(log) > 0 {
						t.Errorf("%s was written to: %v", c, log)
					}
				}
			})
		})
	}
}
