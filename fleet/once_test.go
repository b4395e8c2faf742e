package fleet_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

var migrate = snapshot.ID{Group: "batch", Version: "v1", Kind: "Job", Namespace: "test-namespace", Name: "migrate"}

// job returns a Job of test-namespace, without a TTL if ttl is negative.
func job(image string, ttl int64) *unstructured.Unstructured {
	spec := map[string]any{"template": map[string]any{"spec": map[string]any{
		"restartPolicy": "Never", "containers": []any{map[string]any{"name": "m", "image": image}},
	}}}
	if ttl >= 0 {
		spec["ttlSecondsAfterFinished"] = ttl
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{"name": "migrate", "namespace": "test-namespace"}, "spec": spec,
	}}
}

// jobController runs the Jobs of member2 as the controllers of a cluster would.
type jobController struct {
	w *engineEnv
	// takes is the running time of a Job, stays its lifetime after that; a negative value means
	// forever.
	takes, stays time.Duration
	// failing are the images whose Jobs fail.
	failing []string
	// ran are the images of the Jobs that ran.
	ran []string
}

func (c *jobController) run(t *testing.T) {
	ctx, member := t.Context(), c.w.fleet.Cluster("member2")
	for last := ""; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
		obj, err := member.Get(migrate)
		if err != nil || string(obj.GetUID()) == last {
			continue
		}
		last = string(obj.GetUID())
		image := imageOf(obj)
		c.ran = append(c.ran, image)
		if c.takes > 0 {
			_ = member.SetStatus(migrate, map[string]any{"startTime": "2026-01-01T00:00:00Z", "active": int64(1)})
			time.Sleep(c.takes)
		}
		end := "Complete"
		if slices.Contains(c.failing, image) {
			end = "Failed"
		}
		_ = member.SetStatus(migrate, map[string]any{
			"startTime": "2026-01-01T00:00:00Z", "conditions": []any{map[string]any{"type": end, "status": "True"}},
		})
		if c.stays >= 0 {
			time.Sleep(c.stays)
			_ = member.Delete(migrate)
		}
	}
}

func imageOf(job *unstructured.Unstructured) string {
	containers, _, _ := unstructured.NestedSlice(job.Object, "spec", "template", "spec", "containers")
	c, _ := containers[0].(map[string]any)
	image, _ := c["image"].(string)
	return image
}

// onceEnv is an engine on one cluster with a controller of Jobs, and a placement of a Job.
func onceEnv(t *testing.T, s apply.Strategy, c *jobController, obj *unstructured.Unstructured) (*engineEnv, *fleet.Engine, func()) {
	t.Helper()
	w := newEngineEnv(t)
	c.w = w
	if err := w.source.Put(obj); err != nil {
		t.Fatal(err)
	}
	e := w.engine(w.store, "a")
	p := tutorialPlacement()
	p.ApplyStrategy, p.Policy = s, placement.Policy{Type: placement.PickFixed, ClusterNames: []string{"member2"}}
	if err := e.PutPlacement(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	go c.run(t)
	return w, e, running(t, e)
}

// A Job that completed and was removed by its time to live does not run again: not in a run that
// waits for another object, not between runs, not in later runs, not after a restart and not in a
// rollback. Another version of it runs.
func TestCompletedAndRemovedJobIsNotRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		when apply.WhenToApply
		jobController
	}{
		"whatever":           {"", jobController{takes: time.Second, stays: time.Second}},
		"Always":             {apply.Always, jobController{takes: time.Second, stays: time.Second}},
		"IfNotDrifted":       {apply.IfNotDrifted, jobController{takes: time.Second, stays: time.Second}},
		"it takes longer":    {apply.Always, jobController{takes: time.Minute, stays: time.Second}},
		"longer, unobserved": {"", jobController{takes: time.Minute, stays: time.Second}},
		"it goes at once":    {apply.Always, jobController{takes: 0, stays: 0}},
		"gone unobserved":    {"", jobController{takes: 0, stays: 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, e, stop := onceEnv(t, apply.Strategy{WhenToApply: c.when}, &c.jobController, job("v1", 1))
				member := w.fleet.Cluster("member2")
				member.React(memory.Deployments(func(string) bool { return true }))
				web := &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web", "namespace": "test-namespace"},
					"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "w", "image": "w"}}}}},
				}}
				if err := w.source.Put(web); err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(30*time.Second, func() {
					up := memory.Deployments(nil)
					member.React(up)
					if obj, err := member.Get(snapshot.IDOf(web)); err != nil || member.SetStatus(snapshot.IDOf(web), up(obj)) != nil {
						t.Error("the Deployment does not come up", err)
					}
				})
				ran := func(what string, want ...string) {
					t.Helper()
					time.Sleep(5 * time.Minute)
					if !slices.Equal(c.ran, want) {
						t.Errorf("%s: Jobs of %v ran, want %v", what, c.ran, want)
					}
					if lines, _ := reportOf(t, e, fleet.DriftOptions{}); len(lines) > 0 {
						t.Errorf("%s: %v", what, lines)
					}
				}
				s := inOneStage()
				s.Rollback = &stages.RollbackPolicy{}
				to := func(name string) {
					t.Helper()
					if s := runTo(t, e, name, s); s.Run.State != stages.Completed {
						t.Fatalf("run %s is %s: %s", name, s.Run.State, s.Run.Reason)
					}
				}
				put := func(obj *unstructured.Unstructured) {
					t.Helper()
					if err := w.source.Put(obj); err != nil {
						t.Fatal(err)
					}
				}
				to("one")
				ran("run one", "v1")
				stop()
				e = w.engine(w.store, "b")
				defer running(t, e)()
				ran("a restart", "v1")
				put(configMap("test-cm", "value2"))
				to("two")
				ran("run two", "v1")
				put(job("v2", 1))
				to("three")
				ran("run three", "v1", "v2")
				undo, err := e.Run("three").Rollback(t.Context(), fleet.RollbackOptions{Name: "undo", By: approval.Identity{Name: "ann"}})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				if s, err := e.Run(undo).Wait(t.Context()); err != nil || s.Run.State != stages.Completed {
					t.Fatalf("the rollback is %s: %s, %v", s.Run.State, s.Run.Reason, err)
				}
				ran("the rollback", "v1", "v2")
				to("four")
				ran("run four, which wants v2 again", "v1", "v2")
				w.source.Delete(migrate)
				to("five")
				put(job("v1", 1))
				to("six")
				ran("runs without and with the Job", "v1", "v2")
			})
		})
	}
}

// A Job that failed and was then removed fails its cluster. Only another attempt or another run
// applies it again.
func TestFailedAndRemovedJobIsRepeatedOnlyByARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &jobController{stays: 5 * time.Second, failing: []string{"v1"}}
		w, e, stop := onceEnv(t, apply.Strategy{WhenToApply: apply.Always}, c, job("v1", 1))
		defer stop()
		s := inOneStage()
		s.Attempts = 2
		if got := runTo(t, e, "one", s); got.Run.State == stages.Completed {
			t.Errorf("run one is %s", got.Run.State)
		}
		time.Sleep(time.Hour)
		if len(c.ran) == 0 || len(c.ran) > 2 {
			t.Errorf("the Job ran %d times in two attempts", len(c.ran))
		}
		c.failing = nil
		before := len(c.ran)
		if got := runTo(t, e, "two", inOneStage()); got.Run.State != stages.Completed {
			t.Errorf("run two is %s: %s", got.Run.State, got.Run.Reason)
		}
		time.Sleep(time.Hour)
		if len(c.ran) != before+1 {
			t.Errorf("after run two the Job ran %d times, before it %d times", len(c.ran), before)
		}
		_ = w
	})
}

// A Job without a time to live that a client deletes is restored, unless its success was observed.
func TestAJobThatAClientDeletesIsRestoredUnlessItSucceeded(t *testing.T) {
	for name, c := range map[string]struct {
		takes   time.Duration
		failing []string
		want    int
	}{
		"while it runs":         {takes: time.Hour, want: 2},
		"after it failed":       {takes: time.Minute, failing: []string{"v1"}, want: 2},
		"after it had finished": {takes: time.Minute, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctl := &jobController{takes: c.takes, stays: -1, failing: c.failing}
				w, e, stop := onceEnv(t, apply.Strategy{WhenToApply: apply.Always}, ctl, job("v1", -1))
				defer stop()
				runTo(t, e, "one", inOneStage())
				time.Sleep(10 * time.Minute)
				if err := w.fleet.Cluster("member2").Delete(migrate); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				if len(ctl.ran) != c.want {
					t.Errorf("the Job ran %d times, want %d", len(ctl.ran), c.want)
				}
			})
		})
	}
}
