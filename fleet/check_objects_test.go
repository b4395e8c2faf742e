package fleet_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
)

// smokeTest is a Job that is a check object.
func smokeTest(check string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "batch/v1", "kind": "Job",
		"metadata": map[string]any{
			"name": "smoke-test", "namespace": "test-namespace", "annotations": map[string]any{"slipway.dev/check": check},
		},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"restartPolicy": "Never", "containers": []any{map[string]any{"name": "test", "image": "smoke:1"}},
		}}},
	}}
}

// smoking declares the placement with the check object, takes its snapshot 0 and adds the cluster
// hub, which the placement does not pick.
func smoking(t *testing.T, checks ...string) (*engineEnv, *fleet.Engine) {
	t.Helper()
	w := newEngineEnv(t)
	w.fleet.Add(placement.Cluster{Name: "hub", Labels: map[string]string{"role": "hub"}})
	for i, name := range checks {
		job := smokeTest(name)
		if i > 0 {
			job.SetName(job.GetName() + "-more")
		}
		w.source.Put(job)
	}
	e := w.newEngine(fleet.Config{Name: "one", Lease: 10 * time.Second})
	p := tutorialPlacement()
	p.Policy = placement.Policy{Type: placement.PickFixed, ClusterNames: []string{"member1", "member2", "member3"}}
	if err := e.PutPlacement(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	w.capture(e, "v0")
	return w, e
}

// jobs are the names of the Jobs that a cluster has.
func (w *engineEnv) jobs(cluster string) (names []string) {
	for _, obj := range w.fleet.Cluster(cluster).List("test-namespace") {
		if obj.GetKind() == "Job" {
			names = append(names, obj.GetName())
		}
	}
	return names
}

// job waits for the only Job on a cluster and returns its name.
func (w *engineEnv) job(cluster string) string {
	w.t.Helper()
	for range 120 {
		if names := w.jobs(cluster); len(names) == 1 {
			return names[0]
		}
		time.Sleep(time.Second)
	}
	w.t.Fatalf("cluster %s has Jobs %q, want one", cluster, w.jobs(cluster))
	return ""
}

// end ends the Job of a cluster, with a condition.
func (w *engineEnv) end(cluster, condition, message string) {
	w.t.Helper()
	id := snapshot.ID{Group: "batch", Version: "v1", Kind: "Job", Namespace: "test-namespace", Name: w.job(cluster)}
	err := w.fleet.Cluster(cluster).SetStatus(id, map[string]any{"startTime": "2020-01-01T00:00:00Z", "conditions": []any{
		map[string]any{"type": condition, "status": "True", "reason": "Tested", "message": message},
	}})
	if err != nil {
		w.t.Fatal(err)
	}
}

// made returns the number of Jobs that were ever made on a cluster.
func (w *engineEnv) made(cluster string) (n int) {
	seen := map[string]bool{}
	for _, write := range w.fleet.Cluster(cluster).Log() {
		if write.ID.Kind == "Job" && !seen[write.ID.Name] {
			seen[write.ID.Name] = true
			n++
		}
	}
	return n
}

// wantNoneLeft checks that no cluster has a Job or the ledger of a check, and that no record of a
// check object is stored.
func (w *engineEnv) wantNoneLeft() {
	w.t.Helper()
	time.Sleep(time.Minute)
	for c := range w.fleet.Clusters(w.t.Context()) {
		if names := w.jobs(c.Name); len(names) > 0 {
			w.t.Errorf("cluster %s still has Jobs %q", c.Name, names)
		}
		for _, obj := range w.fleet.Cluster(c.Name).List("slipway-system") {
			if obj.GetKind() == "ConfigMap" && strings.HasPrefix(obj.GetName(), "check-") {
				w.t.Errorf("cluster %s still has ledger %s", c.Name, obj.GetName())
			}
		}
	}
	if keys := w.keys("checkobject/"); len(keys) > 0 {
		w.t.Errorf("records are left: %q", keys)
	}
}

// A check object is not placed with the other objects. It is applied to each cluster after that is
// healthy, under its own name, and its verdict is the verdict of the cluster. Then it is removed,
// with its ledger and its record.
func TestAJobIsTheCheckOfEachCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := smoking(t, "smoke")
		defer running(t, e)()
		must(e.CreateRun(t.Context(), checked("r", func(st *stages.Stage) {
			st.MaxConcurrency, st.MaxFailures = percent("100%"), percent("50%")
			st.ClusterChecks = []check.Check{{Name: "smoke", Object: "smoke"}}
		})))(t)
		for _, c := range []string{"member1", "member2", "member3"} {
			if name := w.job(c); name == "smoke-test" || !strings.HasPrefix(name, "smoke-test-") || w.value(c) != "v0" {
				t.Errorf("cluster %s has Job %s and %s", c, name, w.value(c))
			}
		}
		w.end("member1", "Complete", "all 12 tests passed")
		w.end("member3", "Complete", "")
		time.Sleep(time.Minute)
		measuring := func(f runstate.InFlight) bool { return f.Phase == stages.Measuring }
		if s := must(e.Run("r").Status(t.Context()))(t); s.Run.State != stages.Running || !slices.ContainsFunc(s.Run.Form(runstate.Key{}).InFlight, measuring) {
			t.Fatalf("the run is %s while a Job goes on, in flight are %+v", s.Run.State, s.Run.Form(runstate.Key{}).InFlight)
		}
		w.end("member2", "Failed", strings.Repeat("…", 200)+"the shop does not answer")
		s := endOf(t, e, "r")
		if s.Run.State != stages.Completed || len(s.Run.Form(runstate.Key{}).Unsuccessful) != 1 {
			t.Errorf("the run is %s (%s), unsuccessful are %v", s.Run.State, s.Run.Reason, s.Run.Form(runstate.Key{}).Unsuccessful)
		}
		said := map[string]string{}
		for _, event := range w.eventsOf("r", stages.CheckEnded) {
			said[event.Cluster] = event.Result + " " + event.Message
		}
		if m := said["member1"]; !strings.HasPrefix(m, "Successful ") || !strings.HasSuffix(m, "all 12 tests passed") {
			t.Errorf("of member1 the journal says %q", m)
		}
		if m := said["member2"]; !strings.HasPrefix(m, "Failed ") {
			t.Errorf("of member2 the journal says %q", m)
		}
		w.wantNoneLeft()
	})
}

// A check of a task applies its object to the cluster that it names, which the placement need not
// pick. Each measurement is a Job of its own.
func TestAJobOnTheHubIsTheCheckOfAGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := smoking(t, "smoke")
		w.fleet.Cluster("hub").Record(true)
		must(0, w.fleet.Cluster("hub").Update(namespace("test-namespace")))(t)
		defer running(t, e)()
		must(e.CreateRun(t.Context(), checked("r", func(st *stages.Stage) {
			st.After = []stages.Task{{Type: stages.CheckTask, Checks: []check.Check{{
				Name: "smoke", Object: "smoke", Cluster: "hub", Count: 2, FailureLimit: 1, Interval: metav1.Duration{Duration: time.Minute},
			}}}}
		})))(t)
		names := []string{}
		for _, condition := range []string{"Complete", "Failed", "Complete"} {
			names = append(names, w.job("hub"))
			w.end("hub", condition, "")
			time.Sleep(30 * time.Second)
			if left := w.jobs("hub"); len(left) > 0 {
				t.Errorf("between measurements the hub has %q", left)
			}
		}
		if s := endOf(t, e, "r"); s.Run.State != stages.Completed {
			t.Errorf("the run is %s: %s", s.Run.State, s.Run.Reason)
		}
		slices.Sort(names)
		if len(slices.Compact(names)) != 3 || w.made("hub") != 3 {
			t.Errorf("the Jobs were %q, and %d were made", names, w.made("hub"))
		}
		if got := w.fleet.Cluster("member1"); got.Len() == 0 || len(w.jobs("member1")) > 0 {
			t.Errorf("member1 has %d objects and Jobs %q", got.Len(), w.jobs("member1"))
		}
		w.wantNoneLeft()
	})
}

// An engine that takes a run over waits for the existing Job, and makes no other Job.
func TestAJobOutlivesItsEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := smoking(t, "smoke")
		w.fleet.Cluster("member2").Record(true)
		stop := running(t, e)
		spec := checked("r", func(st *stages.Stage) { st.ClusterChecks = []check.Check{{Name: "smoke", Object: "smoke"}} })
		spec.Strategy.Stages[0].Selector = selects("staging")
		spec.Strategy.Unassigned = stages.UnassignedExclude
		must(e.CreateRun(t.Context(), spec))(t)
		name := w.job("member2")
		stop()
		time.Sleep(time.Hour)
		other := w.newEngine(fleet.Config{Name: "two", Lease: 10 * time.Second})
		defer running(t, other)()
		time.Sleep(time.Minute)
		if got := w.job("member2"); got != name {
			t.Errorf("the Job is %s, it was %s", got, name)
		}
		w.end("member2", "Complete", "")
		if s := endOf(t, other, "r"); s.Run.State != stages.Completed {
			t.Errorf("the run is %s: %s", s.Run.State, s.Run.Reason)
		}
		if n := w.made("member2"); n != 1 {
			t.Errorf("%d Jobs were made", n)
		}
		w.wantNoneLeft()
	})
}

// If a run ends while a Job is running, the Job is removed. If the engine ends with it, another
// engine removes the Job.
func TestAJobOfARunThatEndsIsRemoved(t *testing.T) {
	for _, dies := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, e := smoking(t, "smoke")
			stop := running(t, e)
			must(e.CreateRun(t.Context(), checked("r", func(st *stages.Stage) {
				st.ClusterChecks = []check.Check{{Name: "smoke", Object: "smoke"}}
			})))(t)
			time.Sleep(time.Minute)
			if keys := w.keys("checkobject/"); len(keys) == 0 {
				t.Fatal("nothing says that there is a Job")
			}
			cluster := strings.Split(w.keys("checkobject/")[0], "/")[2]
			w.job(cluster)
			if dies {
				w.fleet.SetDown(cluster, true)
			}
			w.command(e, "r", stages.Command{Verb: stages.Abort, ID: "a"})
			endOf(t, e, "r")
			if dies {
				time.Sleep(time.Second)
				stop()
				if len(w.jobs(cluster)) != 1 || len(w.keys("checkobject/")) != 1 {
					t.Fatalf("of a cluster out of reach: Jobs %q, records %q", w.jobs(cluster), w.keys("checkobject/"))
				}
				w.fleet.SetDown(cluster, false)
				stop = running(t, w.newEngine(fleet.Config{Name: "two", Lease: 10 * time.Second}))
			}
			w.wantNoneLeft()
			stop()
		})
	}
}

// A Job that is deleted before it has ended is an Error, and the next measurement makes a new Job.
func TestAJobThatIsDeletedIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := smoking(t, "smoke")
		defer running(t, e)()
		must(e.CreateRun(t.Context(), checked("r", func(st *stages.Stage) {
			st.ClusterChecks = []check.Check{{Name: "smoke", Object: "smoke", Interval: metav1.Duration{Duration: time.Minute}}}
			st.MaxConcurrency = percent("100%")
		})))(t)
		first := w.job("member1")
		must(0, w.fleet.Cluster("member1").Delete(snapshot.ID{Group: "batch", Version: "v1", Kind: "Job", Namespace: "test-namespace", Name: first}))(t)
		time.Sleep(30 * time.Second)
		if got := w.jobs("member1"); len(got) > 0 {
			t.Errorf("the Job was made again at once: %q", got)
		}
		if second := w.job("member1"); second == first {
			t.Errorf("the second Job has the name of the first, %s", first)
		}
		for _, c := range []string{"member1", "member2", "member3"} {
			w.end(c, "Complete", "")
		}
		if s := endOf(t, e, "r"); s.Run.State != stages.Completed {
			t.Errorf("the run is %s: %s", s.Run.State, s.Run.Reason)
		}
		w.wantNoneLeft()
	})
}

// A plan is refused if the snapshot does not have a check's object exactly once, or if the check's
// cluster is unknown.
func TestPlansWithoutTheirCheckObjectsAreRefused(t *testing.T) {
	for _, c := range []struct {
		objects []string
		check   check.Check
		want    string
	}{
		{nil, check.Check{Object: "smoke", Cluster: "hub"}, "stage all: check c: object: the snapshot has none with the annotation slipway.dev/check: smoke"},
		{[]string{"other"}, check.Check{Object: "smoke", Cluster: "hub"}, "the snapshot has none with the annotation slipway.dev/check: smoke"},
		{[]string{"smoke", "smoke"}, check.Check{Object: "smoke", Cluster: "hub"}, "the snapshot has 2 with the annotation slipway.dev/check: smoke, and must have one"},
		{[]string{"smoke"}, check.Check{Object: "smoke", Cluster: "nowhere"}, "stage all: check c: cluster: nowhere is not in the inventory"},
		{[]string{"smoke"}, check.Check{Object: "smoke"}, "cluster: Required value"},
		{[]string{"smoke"}, check.Check{Object: "smoke", Cluster: "hub", Query: "up", Max: new(1.0)}, "query: Forbidden: a check with an object has no query"},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, e := smoking(t, c.objects...)
			_, err := e.CreateRun(t.Context(), checked("r", func(st *stages.Stage) {
				c.check.Name = "c"
				st.After = []stages.Task{{Type: stages.CheckTask, Checks: []check.Check{c.check}}}
			}))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
		})
	}
}

// A check of a placement in a namespace reaches no cluster that the placement does not reach,
// because its author need not be an administrator of the fleet.
func TestACheckOfANamespaceReachesNoOtherCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, e := smoking(t, "smoke")
		p := tutorialPlacement()
		p.Name, p.Namespace = "tenant", "test-namespace"
		p.Selectors = []snapshot.Selector{{Version: "v1", Kind: "ConfigMap", Namespace: "test-namespace", Name: "test-cm"}, {Group: "batch", Version: "v1", Kind: "Job", Namespace: "test-namespace", Name: "smoke-test"}}
		p.Policy = placement.Policy{Type: placement.PickFixed, ClusterNames: []string{"member1", "member2"}}
		if err := e.PutPlacement(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		for cluster, refused := range map[string]bool{"member1": false, "member3": true, "hub": true} {
			strategy := stages.Strategy{Stages: []stages.Stage{{
				Name: "all", Selector: &metav1.LabelSelector{},
				After: []stages.Task{{Type: stages.CheckTask, Checks: []check.Check{{Name: "c", Object: "smoke", Cluster: cluster}}}},
			}}}
			_, err := e.CreateRun(t.Context(), fleet.RunSpec{Name: "run-" + cluster, Placement: "tenant", Strategy: strategy})
			if (err != nil) != refused || refused && !strings.Contains(err.Error(), "cluster: "+cluster+" is none of the run's, and the placement is one of namespace test-namespace") {
				t.Errorf("cluster %s: %v", cluster, err)
			}
		}
	})
}

// A check brings its object to no cluster of the run before the gates of that cluster's own stage
// have opened, and to no cluster that the run cleans.
func TestACheckObjectIsAppliedOnlyAfterItsGates(t *testing.T) {
	const early, leaves = "the gates before ", "the run removes the placement from member2"
	for _, tenant := range []string{"", "test-namespace"} {
		synctest.Test(t, func(t *testing.T) {
			w, e := smoking(t, "smoke")
			defer running(t, e)()
			p := tutorialPlacement()
			if tenant != "" {
				p.Name, p.Namespace = "tenant", tenant
				p.Selectors = []snapshot.Selector{{Version: "v1", Kind: "ConfigMap", Namespace: tenant, Name: "test-cm"}, {Group: "batch", Version: "v1", Kind: "Job", Namespace: tenant, Name: "smoke-test"}}
				for _, c := range []string{"member1", "member2", "member3"} {
					must(0, w.fleet.Cluster(c).Update(namespace(tenant)))(t)
				}
			}
			pick := func(clusters ...string) {
				t.Helper()
				p.Policy = placement.Policy{Type: placement.PickFixed, ClusterNames: clusters}
				must(0, e.PutPlacement(t.Context(), p))(t)
			}
			// strategy returns a strategy with the check at one of its gates.
			strategy := func(stage string, when approval.When, cluster string) stages.Strategy {
				s := stages.Strategy{Unassigned: stages.UnassignedExclude, Stages: []stages.Stage{
					{Name: "staging", Selector: selects("staging")}, {Name: "canary", Selector: selects("canary")},
				}}
				for i := range s.Stages {
					tasks := []stages.Task{{Type: stages.CheckTask, Checks: []check.Check{{Name: "c", Object: "smoke", Cluster: cluster}}}}
					switch {
					case s.Stages[i].Name != stage:
					case when == approval.Before:
						s.Stages[i].Before = tasks
					default:
						s.Stages[i].After = tasks
					}
				}
				return s
			}
			refused := func(stage string, when approval.When, cluster, want string) {
				t.Helper()
				_, err := e.Preview(t.Context(), fleet.RunSpec{Name: "r", Placement: p.Name, Strategy: strategy(stage, when, cluster)})
				if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("%s %s on %s in namespace %q: %v, want %q", when, stage, cluster, tenant, err, want)
				}
			}
			pick("member1", "member2", "member3")
			refused("staging", approval.Before, "member2", early+"member2")
			refused("staging", approval.Before, "member1", early+"member1")
			refused("staging", approval.After, "member1", early+"member1")
			refused("staging", approval.After, "member2", "")
			refused("canary", approval.Before, "member2", "")
			refused("canary", approval.Before, "member3", early+"member3")
			refused("canary", approval.After, "member1", "")
			if tenant == "" {
				refused("staging", approval.Before, "hub", "")
			}
			must(e.CreateRun(t.Context(), fleet.RunSpec{Name: "first", Placement: p.Name, Strategy: strategy("", "", "")}))(t)
			if s := endOf(t, e, "first"); s.Run.State != stages.Completed {
				t.Fatalf("the run is %s: %s", s.Run.State, s.Run.Reason)
			}
			pick("member1", "member3")
			refused("canary", approval.After, "member2", leaves)
			refused("canary", approval.After, "member1", "")
		})
	}
}
