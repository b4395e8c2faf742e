package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/slipway-dev/slipway/formats/kubefleet"
)

// hear watches a kind and is told of each object that was added, changed or
// deleted. Where nothing but a status changed that a loop writes, the loop compares it after a while.
func (s *service) hear(gvr schema.GroupVersionResource, informer cache.SharedIndexInformer, shows *loop, heard func(*unstructured.Unstructured)) error {
	tell := func(obj any) {
		if u, ok := obj.(*unstructured.Unstructured); ok {
			heard(u)
		}
	}
	gone := func(obj any) {
		if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = last.Obj
		}
		if u, ok := obj.(*unstructured.Unstructured); ok {
			heard(u)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: tell, DeleteFunc: gone, UpdateFunc: func(before, now any) {
			if k, own := onlyOwn(before, now); own && shows != nil {
				shows.addPaced(k, statusRepair)
				return
			}
			tell(now)
		},
	})
	if err == nil {
		err = errors.Join(informer.AddIndexers(cache.Indexers{byEngineName: engineNames}),
			informer.SetTransform(withoutManagers), informer.SetWatchErrorHandlerWithContext(s.unwatched))
	}
	if err != nil {
		return fmt.Errorf("watching %s: %w", gvr.Resource, err)
	}
	s.objects[gvr] = informer
	return nil
}

// withoutManagers leaves out who manages which field: it is as long as the status of
// a large placement, and nobody here asks for it.
func withoutManagers(obj any) (any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		u.SetManagedFields(nil)
	}
	return obj, nil
}

// statusRepair is how soon after the hub wrote a status it looks whether it is as it
// should be.
const statusRepair = 10 * time.Second

// onlyOwn reports whether two versions of an object differ in nothing but the status.
func onlyOwn(before, now any) (key, bool) {
	a, isA := before.(*unstructured.Unstructured)
	b, isB := now.(*unstructured.Unstructured)
	if !isA || !isB {
		return key{}, false
	}
	return keyOf(b), isDeclaredAs(a, b)
}

// isDeclaredAs reports whether two versions of an object declare the same.
func isDeclaredAs(a, b metav1.Object) bool {
	return a.GetUID() == b.GetUID() && a.GetGeneration() == b.GetGeneration() && a.GetDeletionTimestamp().Equal(b.GetDeletionTimestamp()) &&
		slices.Equal(a.GetFinalizers(), b.GetFinalizers()) && maps.Equal(a.GetLabels(), b.GetLabels()) && maps.Equal(a.GetAnnotations(), b.GetAnnotations())
}

func engineNames(obj any) ([]string, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, nil
	}
	return []string{kubefleet.EngineName(u.GetNamespace(), u.GetName())}, nil
}

// unwatched is told when a watch fails, which begins again by itself.
func (s *service) unwatched(_ context.Context, r *cache.Reflector, err error) {
	if !errors.Is(err, io.EOF) && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		s.log.Warn("watching failed, will be tried again", "kind", r.TypeDescription(), "error", err)
	}
}

// object returns the object of that name as it was last seen, or nil. It is the caller's, but for what is in its status, which
// may be long and is shared.
func (s *service) object(gvr schema.GroupVersionResource, k key) *unstructured.Unstructured {
	u := s.seen(gvr, k)
	if u == nil {
		return nil
	}
	status, has := u.Object["status"]
	rest := maps.Clone(u.Object)
	delete(rest, "status")
	out := (&unstructured.Unstructured{Object: rest}).DeepCopy()
	if has {
		out.Object["status"] = status
	}
	return out
}

// seen is object for those who only read: what it returns is shared.
func (s *service) seen(gvr schema.GroupVersionResource, k key) *unstructured.Unstructured {
	at := k.Name
	if k.Namespace != "" {
		at = k.Namespace + "/" + k.Name
	}
	obj, ok, err := s.objects[gvr].GetStore().GetByKey(at)
	if u, is := obj.(*unstructured.Unstructured); is && ok && err == nil {
		return u
	}
	return nil
}

// called returns the keys of the objects of a kind that the engine calls name.
func (s *service) called(base, name string) []key {
	var out []key
	for _, in := range []scope{clusterScope, namespaceScope} {
		found, err := s.objects[in.gvr(base)].GetIndexer().ByIndex(byEngineName, name)
		if err != nil {
			continue
		}
		for _, obj := range found {
			out = append(out, keyOf(obj.(*unstructured.Unstructured)))
		}
	}
	return out
}

func keyOf(u *unstructured.Unstructured) key {
	return key{Namespace: u.GetNamespace(), Name: u.GetName()}
}

func scopeOf(k key) scope { return k.Namespace != "" }

func (s *service) heardPlacement(_ scope, obj *unstructured.Unstructured) {
	s.placements.add(keyOf(obj))
}
func (s *service) heardRun(_ scope, obj *unstructured.Unstructured) { s.runs.add(keyOf(obj)) }

// heardStrategy wakes the runs that wait for a strategy; those that have begun
// have their own copy.
func (s *service) heardStrategy(in scope, obj *unstructured.Unstructured) {
	for _, run := range s.all(in.gvr(runKind)) {
		if run.GetNamespace() == obj.GetNamespace() && strategyOf(run) == obj.GetName() && !isBegun(run) {
			s.runs.add(keyOf(run))
		}
	}
}

// heardApproval wakes the run that a request is about, and those that may wait for its name.
func (s *service) heardApproval(in scope, obj *unstructured.Unstructured) {
	about := specString(obj, "parentStageRollout")
	if about != "" {
		s.runs.add(key{Namespace: obj.GetNamespace(), Name: about})
	}
	for name := range runsOfRequest(obj.GetName()) {
		if k := (key{Namespace: obj.GetNamespace(), Name: name}); name != about && s.seen(in.gvr(runKind), k) != nil {
			s.runs.add(k)
		}
	}
}

func (s *service) heardMember(obj *unstructured.Unstructured) { s.members.add(keyOf(obj)) }

// heardOverride wakes the override, and every placement that it may concern.
func (s *service) heardOverride(obj *unstructured.Unstructured) {
	s.overrides.add(keyOf(obj))
	s.everyPlacement()
}

// everyPlacement asks for all placements.
func (s *service) everyPlacement() {
	for _, in := range []scope{clusterScope, namespaceScope} {
		for _, obj := range s.all(in.gvr(placementKind)) {
			s.placements.addPaced(keyOf(obj), statusPace)
		}
	}
}

// all returns the objects of a kind. They are not to be changed.
func (s *service) all(gvr schema.GroupVersionResource) []*unstructured.Unstructured {
	list := s.objects[gvr].GetStore().List()
	out := make([]*unstructured.Unstructured, 0, len(list))
	for _, obj := range list {
		if u, ok := obj.(*unstructured.Unstructured); ok {
			out = append(out, u)
		}
	}
	return out
}
