package hub

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/objects"
)

// Stale is a hub without watches: it has seen only the objects that it was shown, whatever the API
// server has.
type Stale struct{ s *service }

// NewStale returns a hub that has seen nothing.
func NewStale(h *Hub) (*Stale, error) {
	s, err := newService(h)
	if err != nil {
		return nil, err
	}
	s.client.Recorder = objects.NewRecorder(context.Background(), h.kube, h.cfg.Name, h.log)
	return &Stale{s}, nil
}

// See shows obj to the hub as the latest version of the object.
func (s *Stale) See(obj *unstructured.Unstructured) error {
	gvr, mirrored, err := watchedAs(obj)
	if err != nil {
		return err
	}
	if !mirrored {
		return s.s.client.Store(gvr).Update(obj.DeepCopy())
	}
	return s.s.client.Store(gvr).Update(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
		Labels: obj.GetLabels(), Annotations: obj.GetAnnotations(), OwnerReferences: obj.GetOwnerReferences(),
	}})
}

// Evictable returns the number of clusters that have objects of the placement, for an eviction from
// one of them.
func (s *Stale) Evictable(ctx context.Context, obj *unstructured.Unstructured, cluster string) (int, error) {
	facts, err := s.s.placements.Evictable(ctx, obj, cluster)
	if err != nil {
		return 0, err
	}
	return len(facts.Placement.Picked), nil
}

// Forget makes the hub see the deletion of obj.
func (s *Stale) Forget(obj *unstructured.Unstructured) error {
	gvr, _, err := watchedAs(obj)
	if err != nil {
		return err
	}
	return s.s.client.Store(gvr).Delete(obj)
}

// watchedAs returns the resource of an object, and whether only its metadata is watched.
func watchedAs(obj *unstructured.Unstructured) (gvr schema.GroupVersionResource, mirrored bool, err error) {
	for _, in := range []api.Scope{api.ClusterScope, api.NamespaceScope} {
		for base, mirrored := range map[string]bool{
			api.PlacementKind: false, api.RunKind: false, api.StrategyKind: false, api.ApprovalKind: false, api.OverrideKind: false,
			api.SnapshotKind: true, api.PolicyKind: true, api.OverrideSnapshotKind: true,
		} {
			if in.Kind(base) == obj.GetKind() {
				return in.GVR(base), mirrored, nil
			}
		}
	}
	return gvr, false, fmt.Errorf("the hub does not watch %s", obj.GetKind())
}

// Starter returns the creator of a run, or "" if nothing vouches for the name.
func (s *Stale) Starter(ctx context.Context, run *unstructured.Unstructured) (string, error) {
	by, err := s.s.policies.Starter(ctx, run)
	return by.Name, err
}

// Settled returns an error while the admission policies are too new for requests to be made.
func (s *Stale) Settled(ctx context.Context) error {
	v, err := s.s.policies.Now(ctx)
	if err == nil && v.Settling > 0 {
		err = fmt.Errorf("the policies settle for %v", v.Settling)
	}
	return err
}

// SyncRun reconciles a run once.
func (s *Stale) SyncRun(ctx context.Context, name string) error {
	_, err := s.s.runs.Reconcile(ctx, api.Key{Name: name})
	return err
}

// SyncOverride reconciles an override of a namespace once.
func (s *Stale) SyncOverride(ctx context.Context, namespace, name string) error {
	_, err := s.s.overrides.Reconcile(ctx, api.Key{Namespace: namespace, Name: name})
	return err
}

func (s *Stale) SyncPlacement(ctx context.Context, name string) error {
	_, err := s.s.placements.Reconcile(ctx, api.Key{Name: name})
	return err
}

// Close ends the background work of the hub.
func (s *Stale) Close() {
	s.s.client.Recorder.Stop()
	s.s.shutDown()
	s.s.hub.close()
}
