package delivery_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/oam"
	"github.com/slipway-dev/slipway/formats/oam/delivery"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// env is the tutorial's application, with clusters in memory and an engine that runs only when a
// test drives it.
type env struct {
	t     *testing.T
	store backend.Store
	apps  *delivery.Applications
	app   *unstructured.Unstructured
}

func newEnv(t *testing.T) *env {
	t.Helper()
	v := &env{t: t, store: memory.NewStore()}
	source := memory.NewSource(object(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: demo}"))
	for _, name := range []string{"app-meta.yaml", "policy-topology.yaml", "workflow.yaml", "app.yaml"} {
		text, err := os.ReadFile(filepath.Join("../testdata/seed", name))
		if err != nil {
			t.Fatal(err)
		}
		for doc := range strings.SplitSeq(string(text), "\n---\n") {
			obj := object(t, doc)
			if obj.GetKind() == "Application" {
				v.app = obj
			} else if err := source.Put(obj); err != nil {
				t.Fatal(err)
			}
		}
	}
	members := memory.NewFleet(placement.Cluster{Name: "clusterid1"}, placement.Cluster{Name: "clusterid2"})
	for _, name := range []string{"clusterid1", "clusterid2"} {
		members.Cluster(name).React(memory.Deployments(nil))
	}
	v.apps = &delivery.Applications{Store: v.store, Source: source, Inventory: members, Starter: approval.Identity{Name: "host"}, Engine: v.engine(v.store, members, source)}
	return v
}

func (v *env) engine(store backend.Store, members *memory.Fleet, source snapshot.Source) *fleet.Engine {
	v.t.Helper()
	e, err := fleet.New(fleet.Config{Name: "test", Store: store, Inventory: members, Dialer: members, Source: source})
	if err != nil {
		v.t.Fatal(err)
	}
	return e
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

// reconcile must not fail.
func (v *env) reconcile() delivery.Outcome {
	v.t.Helper()
	out, err := v.apps.Reconcile(v.t.Context(), v.app, nil)
	if err != nil {
		v.t.Fatal(err)
	}
	return out
}

// publish gives the application a version, "" for none.
func (v *env) publish(version string) {
	if version == "" {
		v.app.SetAnnotations(nil)
		return
	}
	v.app.SetAnnotations(map[string]string{oam.PublishVersionAnnotation: version})
}

// A workflow starts if the version changes, also to an earlier version, and at no other time: a
// change without a new version starts none. Without a version every change starts a workflow.
func TestAWorkflowBeginsWithAnotherVersion(t *testing.T) {
	v := newEnv(t)
	var runs []string
	step := func(change func()) {
		change()
		for i, begun := range []bool{v.reconcile().Begun, v.reconcile().Begun} {
			if begun && i > 0 {
				t.Error("reconciled again it begins again")
			}
		}
		runs = append(runs, v.reconcile().Run)
	}
	edit := func() { v.app.SetLabels(map[string]string{"edited": "yes"}) }
	step(func() {})
	step(edit)
	step(func() { v.publish("version2") })
	step(func() { v.publish("version1") })
	step(func() { v.publish("") })
	step(func() {
		components := []any{map[string]any{"name": "other", "type": "ref-objects", "properties": map[string]any{"objects": []any{map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "demo"}}}}}
		_ = unstructured.SetNestedSlice(v.app.Object, components, "spec", "components")
	})
	want := []string{"a.demo.demo.version1", "a.demo.demo.version1", "a.demo.demo.version2", "a.demo.demo.version1-2"}
	if diff := cmp.Diff(want, runs[:4]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if runs[4] == runs[5] || !strings.HasPrefix(runs[4], "a.demo.demo.spec-") || !strings.HasPrefix(runs[5], "a.demo.demo.spec-") {
		t.Errorf("without a version: %q", runs[4:])
	}
}

// A host that finds the application changed right before a workflow begins keeps it from
// beginning, and nothing is written.
func TestAHostConfirmsAWorkflow(t *testing.T) {
	v := newEnv(t)
	changed := errors.New("changed meanwhile")
	calls := 0
	confirm := func(context.Context) error { calls++; return changed }
	if _, err := v.apps.Reconcile(t.Context(), v.app, confirm); !errors.Is(err, changed) {
		t.Errorf("it fails with %v", err)
	}
	if _, err := v.apps.Last(t.Context(), "demo", "demo"); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("a workflow has begun: %v", err)
	}
	v.reconcile()
	if _, err := v.apps.Reconcile(t.Context(), v.app, confirm); err != nil || calls != 1 {
		t.Errorf("where none begins: %v, %d calls", err, calls)
	}
}

// A store that fails and a context that ends say nothing of an application: they are errors and
// no problems of it.
func TestAStoreThatFailsIsNoProblemOfAnApplication(t *testing.T) {
	down := errors.New("the disk is gone")
	plan := faulty.NewPlan(func(faulty.Call) faulty.Fault { return faulty.Before(down) })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, begun := range map[string]bool{"before the first workflow": false, "afterwards": true} {
		v := newEnv(t)
		if begun {
			v.reconcile()
		}
		if out, err := v.apps.Reconcile(ended, v.app, nil); err == nil || out.Problem != nil {
			t.Errorf("%s, a context that ended: %v, problem %v", name, err, out.Problem)
		}
		v.apps.Store = plan.Store(v.store)
		if out, err := v.apps.Reconcile(t.Context(), v.app, nil); !errors.Is(err, down) || out.Problem != nil {
			t.Errorf("%s, a store that fails: %v, problem %v", name, err, out.Problem)
		}
	}
}

// An existing problem of an application keeps its time, so that its status is not rewritten
// repeatedly; a new problem gets the current time.
func TestAProblemKeepsItsTime(t *testing.T) {
	app := object(t, `status: {conditions: [{type: Parsed, status: "False", message: no workflow, lastTransitionTime: "2026-01-02T03:04:05Z"}]}`)
	now := time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC)
	for message, want := range map[string]string{"no workflow": "2026-01-02T03:04:05Z", "no policy": "2026-01-02T04:00:00Z"} {
		got := delivery.StatusOf(oam.Record{}, errors.New(message), app, now)
		if at := got.Conditions[0].LastTransitionTime.UTC().Format(time.RFC3339); at != want || got.Phase != oam.Starting {
			t.Errorf("%s: %s in phase %s, want %s", message, at, got.Phase, want)
		}
	}
	app.Object["status"] = "no status"
	if got := delivery.StatusOf(oam.Record{}, errors.New("no policy"), app, now); len(got.Conditions) != 1 {
		t.Errorf("after a status that is none: %+v", got)
	}
}

// A record of a later version is refused, and left alone.
func TestARecordOfALaterVersion(t *testing.T) {
	v := newEnv(t)
	if _, err := v.store.Put(t.Context(), "application/demo/demo", []byte(`{"format": 99}`), ""); err != nil {
		t.Fatal(err)
	}
	_, reconciled := v.apps.Reconcile(t.Context(), v.app, nil)
	_, removed := v.apps.Remove(t.Context(), "demo", "demo")
	for _, err := range []error{reconciled, removed} {
		if err == nil || !strings.Contains(err.Error(), "record application/demo/demo: format 99 is newer than 1") {
			t.Errorf("it fails with %v", err)
		}
	}
}

// The name of a placement of another owner is not taken: nothing is recorded, and the removal of
// the application leaves the placement.
func TestAPlacementOfAnotherOwnerStays(t *testing.T) {
	for _, owner := range []string{"", "uid"} {
		v := newEnv(t)
		theirs := fleet.Placement{Name: delivery.PlacementOf("demo", "demo"), Owner: owner, Selectors: []snapshot.Selector{{Version: "v1", Kind: "ConfigMap", Namespace: "demo"}}}
		if err := v.apps.Engine.PutPlacement(t.Context(), theirs); err != nil {
			t.Fatal(err)
		}
		if out := v.reconcile(); out.Problem == nil || !strings.Contains(out.Problem.Error(), "the engine has a placement "+theirs.Name+" that is not of the application") {
			t.Errorf("the problem is %v", out.Problem)
		}
		for key := range dump(t, v.store) {
			if strings.HasPrefix(key, "application/") {
				t.Errorf("recorded: %s", key)
			}
		}
		v.wantKept(theirs, "of an application that was refused")
	}
}

// wantKept checks that the removal of the application succeeds and leaves a placement.
func (v *env) wantKept(theirs fleet.Placement, what string) {
	v.t.Helper()
	if gone, err := v.apps.Remove(v.t.Context(), "demo", "demo"); !gone || err != nil {
		v.t.Errorf("the removal %s: gone %t, %v", what, gone, err)
	}
	if got, err := v.apps.Engine.Placement(theirs.Name).Get(v.t.Context()); err != nil || got.Selectors[0].Kind != "ConfigMap" {
		v.t.Errorf("after the removal %s the placement is %+v, %v", what, got, err)
	}
}

// A placement of another owner that took the name after the application had begun stays, too.
func TestARemovalLeavesThePlacementThatTookTheName(t *testing.T) {
	v := newEnv(t)
	v.reconcile()
	name := delivery.PlacementOf("demo", "demo")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = v.apps.Engine.Start(ctx) }()
	defer func() { stop(); <-ended }()
	if err := v.apps.Engine.Placement(name).Delete(ctx, fleet.DeleteOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	for d, err := v.apps.Engine.Placement(name).Deletion(ctx); err == nil && d.Ended.IsZero(); d, err = v.apps.Engine.Placement(name).Deletion(ctx) {
		time.Sleep(10 * time.Millisecond)
	}
	theirs := fleet.Placement{Name: name, Owner: "uid", Selectors: []snapshot.Selector{{Version: "v1", Kind: "ConfigMap", Namespace: "demo"}}}
	if err := v.apps.Engine.PutPlacement(ctx, theirs); err != nil {
		t.Fatal(err)
	}
	v.wantKept(theirs, "of an application whose placement is gone")
}

// dump returns all records of a store.
func dump(t *testing.T, store backend.Store) map[string]backend.Record {
	t.Helper()
	all := map[string]backend.Record{}
	for rec, err := range store.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		all[rec.Key] = rec
	}
	return all
}

// With the engine's API about a run a client can suspend, resume and terminate it, and show its
// steps, but not restart it.
func TestAClientDirectsWorkflowsThroughAnAPI(t *testing.T) {
	v := newEnv(t)
	run := v.reconcile().Run
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = v.apps.Engine.Start(ctx) }()
	defer func() { stop(); <-ended }()
	follower, err := v.apps.Engine.Run(run).Follow("")
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range follower.Events(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == stages.ApprovalRequested {
			break
		}
	}
	client := delivery.Client{
		Runs: func(ctx context.Context, placement string) ([]fleet.RunSummary, error) {
			return v.apps.Engine.Placement(placement).Runs(ctx)
		},
		Run: func(name string) delivery.Run { return v.apps.Engine.Run(name) },
	}
	if _, err := client.Last(ctx, "demo", "other"); !errors.Is(err, backend.ErrNotFound) || !strings.Contains(err.Error(), "no workflow of it has begun") {
		t.Errorf("an application without a workflow: %v", err)
	}
	rec, err := client.Last(ctx, "demo", "demo")
	if err != nil {
		t.Fatal(err)
	}
	full, err := v.apps.Last(ctx, "demo", "demo")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(oam.NewStatus(full).Workflow, oam.NewStatus(rec).Workflow); diff != "" {
		t.Errorf("the workflow outlined (-whole +outlined):\n%s", diff)
	}
	ask := func(verb delivery.Verb, step string) (string, error) {
		return client.Do(ctx, delivery.Request{Namespace: "demo", Name: "demo", Verb: verb, Step: step, By: approval.Identity{Name: "alice"}})
	}
	for verb, want := range map[delivery.Verb]string{delivery.Restart: "can not restart a workflow through the API", "pause": `"pause" is no verb`} {
		if _, err := ask(verb, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", verb, err, want)
		}
	}
	if message, err := ask(delivery.Resume, "deploy-prod"); err != nil || message != "Successfully resume workflow demo from step deploy-prod" {
		t.Errorf("resume: %q, %v", message, err)
	}
	if st, err := v.apps.Engine.Run(run).Wait(ctx); err != nil || st.Run.State != stages.Completed {
		t.Errorf("the run is %s, %v", st.Run.State, err)
	}
}

// A restart succeeds if a hub reconciles the application before any of the restart's calls of the
// store.
func TestRestartBesideAHub(t *testing.T) {
	for n, called := 1, true; called; n++ {
		called = restartWithAHubBefore(t, n)
	}
}

// restartWithAHubBefore restarts a terminated workflow in a second process, while a hub reconciles
// the application before the nth call of the store. It reports whether there was such a call.
func restartWithAHubBefore(t *testing.T, n int) (called bool) {
	t.Helper()
	v := newEnv(t)
	v.reconcile()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = v.apps.Engine.Start(ctx) }()
	defer func() { stop(); <-ended }()
	request := delivery.Request{Namespace: "demo", Name: "demo", Verb: delivery.Terminate, By: approval.Identity{Name: "alice"}}
	if _, err := v.apps.Do(ctx, request); err != nil {
		t.Fatal(err)
	}
	if _, err := v.apps.Engine.Run(v.reconcile().Run).Wait(ctx); err != nil {
		t.Fatal(err)
	}
	plan := faulty.NewPlan(func(c faulty.Call) faulty.Fault {
		if c.N == n {
			called = true
			v.reconcile()
		}
		return faulty.Fault{}
	})
	other := *v.apps
	other.Store = plan.Store(v.store)
	other.Engine = v.engine(other.Store, v.apps.Inventory.(*memory.Fleet), other.Source)
	request.Verb = delivery.Restart
	if got, err := other.Do(ctx, request); err != nil || got != "Successfully restart workflow: demo" {
		t.Errorf("a hub before call %d: %q, %v", n, got, err)
	}
	return called
}
