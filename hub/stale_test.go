package hub_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// stale is an environment whose hub has seen only the objects that the test shows it, like a hub
// that was paused or whose watch lags. Its engine does not run, so that only the hub changes
// objects.
type stale struct {
	*hubEnv
	*hub.Stale
	engine *fleet.Engine
	store  *memory.Store
}

func newStale(t *testing.T, change ...func(*hub.Config)) *stale {
	t.Helper()
	store := memory.NewStore()
	return staleOn(newHubEnv(t, 0), "stale", store, store, change...)
}

// staleOn returns a stale hub in an environment that another hub serves, too. Both have their
// records in the same store, and this hub uses its own access to it.
func staleOn(w *hubEnv, name string, store *memory.Store, way backend.Store, change ...func(*hub.Config)) *stale {
	t := w.t
	t.Helper()
	cfg := w.config(name)
	s := &stale{hubEnv: w, store: store}
	cfg.Store = way
	cfg.Inventory = backend.InventoryFunc(func(context.Context) iter.Seq2[placement.Cluster, error] {
		return func(yield func(placement.Cluster, error) bool) {
			yield(placement.Cluster{Name: "one", UID: "one", Labels: map[string]string{"stage": "canary"}}, nil)
		}
	})
	for _, c := range change {
		c(&cfg)
	}
	h, err := hub.New(cfg)
	if err == nil {
		s.Stale, err = hub.NewStale(h)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	s.engine = h.Engine()
	return s
}

// seen shows the hub the current version of an object, and returns it.
func (s *stale) seen(short, name string) *unstructured.Unstructured {
	s.t.Helper()
	obj, err := s.at(short).Get(s.t.Context(), name, getOptions())
	if err == nil {
		err = s.See(obj)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return obj
}

// sync shows the hub the current version of an object, with the snapshots, until the hub has
// nothing to do for it.
func (s *stale) sync(short, name string, round func(context.Context, string) error) {
	s.t.Helper()
	s.eventually(short+" "+name+" to be brought up to date", func() error {
		s.seen(short, name)
		for _, kind := range []string{"crs", "csps"} {
			list, err := s.at(kind).List(s.t.Context(), metav1.ListOptions{})
			for i := range list.Items {
				err = errors.Join(err, s.See(&list.Items[i]))
			}
			if err != nil {
				return err
			}
		}
		return round(s.t.Context(), name)
	})
}

// again deletes an object together with its finalizers, and creates a new object with the same
// name.
func (s *stale) again(short, name string, obj *unstructured.Unstructured) {
	s.t.Helper()
	s.release(s.t.Context(), s.kindOf(short), s.seen(short, name))
	s.eventually("the object to be gone", func() error {
		if _, err := s.at(short).Get(s.t.Context(), name, getOptions()); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	s.create(obj)
}

// begun returns a stale hub that has begun the run with the environment's name, and the run with
// its finalizer before the hub recorded that in its metadata.
func begun(t *testing.T) (*stale, *unstructured.Unstructured) {
	s := newStale(t)
	s.place("v1")
	s.staged("")
	s.sync("crp", s.name, s.SyncPlacement)
	run := s.runOf(s.name, "")
	run.Object["spec"].(map[string]any)["state"] = "Initialize"
	run.SetFinalizers([]string{"kubernetes-fleet.io/stagedupdaterun-finalizer"})
	before := s.create(run)
	s.sync("csur", s.name, s.SyncRun)
	if before.GetAnnotations()["slipway.dev/run-uid"] != "" || s.seen("csur", s.name).GetAnnotations()["slipway.dev/run-uid"] == "" {
		t.Fatal("the run was tied to the engine's at another moment than this test expects")
	}
	return s, before
}

// A hub that has not seen that a run was begun does not begin it again, even if the engine run is
// gone.
func TestAStaleHubBeginsNoRunTwice(t *testing.T) {
	s, before := begun(t)
	if err := s.engine.Run(s.name).Delete(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if err := s.See(before); err != nil {
		t.Fatal(err)
	}
	err := s.SyncRun(t.Context(), s.name)
	if _, gone := s.engine.Run(s.name).Status(t.Context()); !errors.Is(gone, backend.ErrNotFound) {
		t.Errorf("the run was begun again (%v)", err)
	}
}

// A hub that has not seen a stop of a run does not start the run.
func TestAStaleHubStartsNoRunThatWasStopped(t *testing.T) {
	s, _ := begun(t)
	s.patch("csur", s.name, `{"spec":{"state":"Run"}}`)
	started := s.seen("csur", s.name)
	s.patch("csur", s.name, `{"spec":{"state":"Stop"}}`)
	if err := s.See(started); err != nil {
		t.Fatal(err)
	}
	_ = s.SyncRun(t.Context(), s.name)
	for rec, err := range s.store.List(t.Context(), "command/") {
		t.Errorf("the run was ordered to start: %s (%v)", rec.Key, err)
	}
}

// A hub that has not seen that a run was deleted and created again does not change the new run.
func TestAStaleHubDeletesNoRunThatWasMadeAgain(t *testing.T) {
	s, _ := begun(t)
	first := s.seen("csur", s.name)
	s.again("csur", s.name, s.runOf(s.name, ""))
	second := s.seen("csur", s.name).GetUID()
	s.eventually("the second run to begin", func() error {
		s.seen("csur", s.name)
		_ = s.SyncRun(t.Context(), s.name)
		status, err := s.engine.Run(s.name).Status(t.Context())
		if err == nil && status.Owner != string(second) {
			err = errors.New("it is the first")
		}
		return err
	})
	if err := s.See(first); err != nil {
		t.Fatal(err)
	}
	err := s.SyncRun(t.Context(), s.name)
	if status, gone := s.engine.Run(s.name).Status(t.Context()); gone != nil || status.Owner != string(second) {
		t.Errorf("the second run was deleted: %v (%v)", gone, err)
	}
}

// A hub that has not seen that a placement was deleted and created again does not remove the
// objects of the new one.
func TestAStaleHubDeletesNoPlacementThatWasMadeAgain(t *testing.T) {
	s := newStale(t)
	s.place("v1")
	s.patch("crp", s.name, `{"metadata":{"finalizers":["kubernetes-fleet.io/crp-cleanup"]}}`)
	first := s.seen("crp", s.name)
	second := first.DeepCopy()
	second.SetUID("")
	second.SetResourceVersion("")
	s.again("crp", s.name, second)
	s.sync("crp", s.name, s.SyncPlacement)
	if err := s.See(first); err != nil {
		t.Fatal(err)
	}
	err := s.SyncPlacement(t.Context(), s.name)
	if d, none := s.engine.Placement(s.name).Deletion(t.Context()); !errors.Is(none, backend.ErrNotFound) {
		t.Errorf("the second placement is being deleted: %+v (%v)", d, err)
	}
}

// A hub that has not seen a new rollout strategy of a placement does not declare the old one, and
// rolls nothing out.
func TestAStaleHubRollsOutNothing(t *testing.T) {
	s := newStale(t)
	s.createText(`{apiVersion: v1, kind: Namespace, metadata: {name: $NAME}}`)
	s.createText(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: $NAME, finalizers: [kubernetes-fleet.io/crp-cleanup]}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: $NAME}]
  policy: {placementType: PickAll}
  strategy: {type: RollingUpdate}
`)
	before := s.seen("crp", s.name)
	s.patch("crp", s.name, `{"spec":{"strategy":{"type":"External","rollingUpdate":null}}}`)
	s.sync("crp", s.name, s.SyncPlacement)
	if err := s.See(before); err != nil {
		t.Fatal(err)
	}
	err := s.SyncPlacement(t.Context(), s.name)
	if runs, _ := s.engine.Placement(s.name).RunNames(t.Context()); len(runs) > 0 {
		t.Errorf("it began %v (%v)", runs, err)
	}
	if p, _ := s.engine.Placement(s.name).Get(t.Context()); p.Admission == stages.SupersedeActive {
		t.Errorf("the placement is declared as it was (%v)", err)
	}
}

// An object with the name of a placement that a host declared to the engine does not replace that
// placement.
func TestObjectDoesNotReplaceAHostsPlacement(t *testing.T) {
	s, _ := begun(t)
	p, err := s.engine.Placement(s.name).Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.Name, p.Owner = s.name+"-own", ""
	if err := s.engine.PutPlacement(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	s.createText(strings.Replace(crpNamed, "NAMED", p.Name, 1))
	s.seen("crp", p.Name)
	refused := s.SyncPlacement(t.Context(), p.Name)
	if _, none := s.engine.Placement(p.Name).Deletion(t.Context()); !errors.Is(none, backend.ErrNotFound) {
		t.Errorf("the host's placement is being deleted (%v)", refused)
	}
	s.eventually("the reason in the status", func() error {
		s.seen("crp", p.Name)
		_ = s.SyncPlacement(t.Context(), p.Name)
		return s.condition("crp", p.Name, "ClusterResourcePlacementScheduled", "False")
	})
	if _, err := s.engine.Placement(p.Name).Resolve(t.Context()); err != nil {
		t.Fatal(err)
	}
	if picked, err := s.Evictable(t.Context(), s.seen("crp", p.Name), "one"); picked > 0 || err != nil {
		t.Errorf("by the object, the host's placement can be evicted from %d clusters: %v", picked, err)
	}
	if err := s.engine.Placement(p.Name).Delete(t.Context(), fleet.DeleteOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	if err := s.at("crp").Delete(t.Context(), p.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.eventually("the object to go, while the host's placement is removed", func() error {
		if _, err := s.at("crp").Get(t.Context(), p.Name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return nil
		}
		s.seen("crp", p.Name)
		return errors.Join(errors.New("it is there"), s.SyncPlacement(t.Context(), p.Name))
	})
	if _, err := s.engine.Placement(p.Name).Deletion(t.Context()); err != nil {
		t.Errorf("the deletion of the host's placement: %v", err)
	}
}

const crpNamed = `
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: NAMED}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: $NAME}]
  policy: {placementType: PickAll}
  strategy: {type: External}
`

// An override that cannot be read holds back only the placements that it may concern. It concerns
// no placement in another namespace, and no placement that selects nothing in its namespace.
func TestUnreadableOverrideBlocksOnlyItsPlacements(t *testing.T) {
	s := newStale(t)
	s.place("v1")
	see := func(namespace, placement string) {
		t.Helper()
		broken := s.parse(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceOverride
metadata: {name: broken, namespace: ` + namespace + `, uid: ` + namespace + `}
spec: {` + placement + `policy: nonsense}
`)
		if err := s.See(broken); err != nil {
			t.Fatal(err)
		}
		s.sync("crp", s.name, s.SyncPlacement)
	}
	see("elsewhere", "placement: {name: $NAME, scope: Namespaced}, ")
	s.await("crp", s.name, "ClusterResourcePlacementScheduled", "True")
	see("nowhere", "")
	s.await("crp", s.name, "ClusterResourcePlacementScheduled", "True")
	see(s.name, "")
	s.await("crp", s.name, "ClusterResourcePlacementScheduled", "False")
}

// Only one policy snapshot is the latest, even after a hub died before it wrote that.
func TestOnePolicySnapshotIsTheLatest(t *testing.T) {
	s := newStale(t)
	s.place("v1")
	s.sync("crp", s.name, s.SyncPlacement)
	old := s.seen("csps", s.name+"-0")
	old.SetName(s.name + "-7")
	old.SetUID("")
	old.SetResourceVersion("")
	s.create(old)
	s.sync("crp", s.name, s.SyncPlacement)
	if labels := s.seen("csps", s.name+"-7").GetLabels(); labels["kubernetes-fleet.io/is-latest-snapshot"] != "false" {
		t.Errorf("it is still labelled as the latest: %v", labels)
	}
}

// A run whose object was removed without its finalizer ends. A run whose object the hub has only
// not seen yet is not changed, and neither is a run of the host.
func TestARunWithoutItsObjectEnds(t *testing.T) {
	s, _ := begun(t)
	s.mayWarn("went without its finalizer")
	seen := s.seen("csur", s.name)
	status, err := s.engine.Run(s.name).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	own := fleet.RunSpec{Name: s.name + "-own", Placement: s.name, Strategy: status.Plan.Strategy}
	if _, err := s.engine.CreateRun(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	without := func(name string) error {
		if err := errors.Join(s.Forget(seen), s.SyncRun(t.Context(), name)); err != nil {
			t.Fatal(err)
		}
		_, err := s.engine.Run(name).Status(t.Context())
		return err
	}
	if err := errors.Join(without(s.name), without(own.Name)); err != nil {
		t.Fatal(err)
	}
	s.release(t.Context(), s.kindOf("csur"), seen)
	if err := without(s.name); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("the run goes on: %v", err)
	}
	if err := without(own.Name); err != nil {
		t.Errorf("the host's own run is gone: %v", err)
	}
}

// The author in an object that is older than the admission policies proves nothing, because any
// client can have written it.
func TestAuthorsOlderThanThePoliciesAreUnproven(t *testing.T) {
	s := newStale(t)
	s.create(s.runOf(s.name, ""))
	run := s.seen("csur", s.name)
	made := run.GetCreationTimestamp()
	for who, at := range map[string]metav1.Time{
		"admin": metav1.NewTime(made.Add(time.Minute)), "": metav1.NewTime(made.Add(-time.Hour)),
	} {
		run.SetCreationTimestamp(at)
		if by, err := s.Starter(t.Context(), run); err != nil || (by == "") != (who == "") {
			t.Errorf("made at %v by %q (%v), want %q", at, by, err, who)
		}
	}
}
