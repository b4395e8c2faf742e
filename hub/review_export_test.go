package hub

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Stale is a hub that watches nothing: it has seen what it is shown, whatever the
// API server has since.
type Stale struct{ s *service }

// NewStale returns a hub that has seen nothing.
func NewStale(h *Hub) (*Stale, error) {
	s, err := newService(h)
	if err != nil {
		return nil, err
	}
	s.notes = newNotes(context.Background(), s.kube, h.cfg.Name)
	return &Stale{s}, nil
}

// See makes obj what the hub has seen last of it.
func (s *Stale) See(obj *unstructured.Unstructured) error {
	for gvr, informer := range s.s.objects {
		if gvr.Resource == watchedAs(obj) {
			return informer.GetStore().Update(obj.DeepCopy())
		}
	}
	for gvr, informer := range s.s.mirrors.objects {
		if gvr.Resource == watchedAs(obj) {
			m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
				Labels: obj.GetLabels(), Annotations: obj.GetAnnotations(), OwnerReferences: obj.GetOwnerReferences(),
			}}
			return informer.GetStore().Update(m)
		}
	}
	return fmt.Errorf("the hub does not watch %s", obj.GetKind())
}

// Forget makes the hub see that obj is gone.
func (s *Stale) Forget(obj *unstructured.Unstructured) error {
	for gvr, informer := range s.s.objects {
		if gvr.Resource == watchedAs(obj) {
			return informer.GetStore().Delete(obj)
		}
	}
	return fmt.Errorf("the hub does not watch %s", obj.GetKind())
}

func watchedAs(obj *unstructured.Unstructured) string {
	for _, in := range []scope{clusterScope, namespaceScope} {
		for _, base := range []string{placementKind, runKind, strategyKind, approvalKind, snapshotKind, policyKind, overrideKind, overrideSnapshotKind} {
			if in.kind(base) == obj.GetKind() {
				return in.gvr(base).Resource
			}
		}
	}
	return ""
}

// Starter is who made a run, as far as somebody vouches for it.
func (s *Stale) Starter(ctx context.Context, run *unstructured.Unstructured) (string, error) {
	by, err := s.s.starter(ctx, run)
	return by.Name, err
}

// Settled is an error as long as the admission policies are too new for anything to be asked.
func (s *Stale) Settled(ctx context.Context) error {
	v, err := s.s.vouching(ctx)
	if err == nil && v.settling > 0 {
		err = fmt.Errorf("the policies settle for %v", v.settling)
	}
	return err
}

// SyncRun and SyncPlacement do one round for an object.
func (s *Stale) SyncRun(ctx context.Context, name string) error {
	_, err := s.s.syncRun(ctx, key{Name: name})
	return err
}

// SyncOverride does one round for an override of a namespace.
func (s *Stale) SyncOverride(ctx context.Context, namespace, name string) error {
	_, err := s.s.syncOverride(ctx, key{Namespace: namespace, Name: name})
	return err
}

func (s *Stale) SyncPlacement(ctx context.Context, name string) error {
	_, err := s.s.syncPlacement(ctx, key{Name: name})
	return err
}

// Remembers reports whether the contents of overrides that are under a digest are
// remembered after the hub has looked which ones snapshots need.
func (s *Stale) Remembers(ctx context.Context, digest string) (bool, error) {
	s.s.overrideContents.Store(digest, []string(nil))
	_, err := s.s.frozenOverrides(ctx)
	_, ok := s.s.overrideContents.Load(digest)
	return ok, err
}

// Close ends what the hub does in the background.
func (s *Stale) Close() {
	s.s.notes.stop()
	for _, l := range s.s.loops() {
		l.queue.ShutDown()
	}
	s.s.close()
}
