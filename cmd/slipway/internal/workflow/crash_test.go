package workflow

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/formats/oam/delivery"
	"github.com/slipway-dev/slipway/snapshot"
)

// act is a command for a workflow with these files; the workflow settles after it.
type act struct {
	files   []string
	request delivery.Request
}

// acts are the tutorial and the steps of its later versions: the workflow of the second version
// is terminated, and restarted from the step that it did not complete.
func acts() []act {
	first := []string{"app-meta.yaml", "policy-topology.yaml", "workflow.yaml", "app.yaml"}
	second := []string{"app-meta-blue.yaml", "policy-topology.yaml", "workflow.yaml", "app-version2.yaml"}
	ask := func(files []string, verb delivery.Verb, step string) act {
		return act{files, delivery.Request{Namespace: "demo", Name: "demo", Verb: verb, Step: step, By: approval.Identity{Name: "alice"}}}
	}
	return []act{
		{files: first},
		ask(first, delivery.Resume, ""),
		{files: second},
		ask(second, delivery.Terminate, ""), ask(second, delivery.Restart, "deploy-prod"), ask(second, delivery.Resume, ""),
	}
}

// everyth is the distance between the writes at which the process crashes. It is larger with the
// race detector, which makes the test ten times slower.
func everyth() int {
	if underRace {
		return 12
	}
	return 3
}

// After a crash at any write of a cluster or of the engine, the next process continues. In the
// end the same runs exist, each once, and the clusters have the same content.
func TestAWorkflowContinuesAfterACrashAtAnyWrite(t *testing.T) {
	want, crashed := playThrough(t, faulty.NewPlan())
	if crashed {
		t.Fatal("it crashed without a fault")
	}
	const whole = `a.demo.demo.version1 Completed
a.demo.demo.version2 Aborted
a.demo.demo.version2-2 Completed
managedcluster-test registry.cn-hangzhou.aliyuncs.com/acs/rollouts-demo:blue
managedcluster-prod registry.cn-hangzhou.aliyuncs.com/acs/rollouts-demo:blue
phase running
`
	if diff := cmp.Diff(whole, want); diff != "" {
		t.Fatalf("without a crash (-want +got):\n%s", diff)
	}
	for n := 1; ; n += everyth() {
		got, crashed := playThrough(t, faulty.NewPlan(faulty.CrashAfter(n)))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after a crash at write %d (-want +got):\n%s", n, diff)
		}
		if !crashed {
			break
		}
	}
}

// playThrough plays all acts in a process with the faults of the plan, and after a crash the rest
// in another process.
func playThrough(t *testing.T, plan *faulty.Plan) (state string, crashed bool) {
	t.Helper()
	kept := memory.NewStore()
	done, err := playActs(t.Context(), plan.Store(kept), acts(), false)
	if plan.Crashed() {
		_, err = playActs(t.Context(), kept, acts()[done:], true)
	}
	if err != nil {
		t.Fatalf("after %d writes, %d acts: %v\n%s", plan.Writes(), done, err, stateOf(t, kept))
	}
	return stateOf(t, kept), plan.Crashed()
}

// playActs returns the number of completed acts. If a crashed process may have played the first
// one already, its command may be refused.
func playActs(ctx context.Context, store backend.Store, list []act, again bool) (done int, err error) {
	for i, a := range list {
		s, err := open(ctx, store, a.files)
		if err != nil {
			return i, err
		}
		if a.request.Verb != "" {
			if _, err := s.apps.Do(ctx, a.request); err != nil && (!again || i > 0) {
				return i, err
			}
		}
		err = target.Drive(ctx, s.apps.Engine, "", func(ctx context.Context) error {
			return wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
				_, moving, err := s.reconcile(ctx)
				return !moving, err
			})
		})
		if err != nil {
			return i, err
		}
	}
	return len(list), nil
}

func open(ctx context.Context, store backend.Store, files []string) (*simulation, error) {
	var paths []string
	for _, name := range files {
		paths = append(paths, "testdata/tutorial/"+name)
	}
	docs, err := readFiles(paths, "demo")
	if err != nil {
		return nil, err
	}
	return newSimulation(ctx, store, docs)
}

// stateOf returns the runs, the contents of the clusters, and the state of the application.
func stateOf(t *testing.T, store backend.Store) string {
	t.Helper()
	s, err := open(t.Context(), store, acts()[len(acts())-1].files)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	runs, err := s.apps.Engine.Placement(delivery.PlacementOf("demo", "demo")).RunNames(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		st, err := s.apps.Engine.Run(run).Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, run, st.Run.State)
	}
	for _, cluster := range []string{"managedcluster-test", "managedcluster-prod"} {
		fmt.Fprintln(&b, cluster, imageOn(s.members.Cluster(cluster)))
	}
	out, err := s.apps.Reconcile(t.Context(), s.docs.applications[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(&b, "phase", out.Status.Phase)
	return b.String()
}

// imageOn returns the image of the tutorial's Deployment on a cluster, or "" if it does not
// exist.
func imageOn(cluster *memory.Cluster) string {
	obj, err := cluster.Get(snapshot.ID{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "demo", Name: "demo"})
	if err != nil {
		return ""
	}
	containers, _, _ := unstructured.NestedSlice(obj.Object, "spec", "template", "spec", "containers")
	return fmt.Sprint(containers[0].(map[string]any)["image"])
}
