package objects

import (
	"cmp"
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/queues"
	"github.com/slipway-dev/slipway/internal/reconcile"
)

// byParent indexes the objects that show snapshots by their placement.
const byParent = "parent"

// WatchMetadata watches the objects that a loop makes of others, which are told of
// those that change or go, and of every one where they may have outlived the
// other.
func (c *Client) WatchMetadata(gvr schema.GroupVersionResource, shows *reconcile.Queue[api.Key], all bool) error {
	tell := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
			shows.AddPaced(api.Key{Namespace: m.Namespace, Name: parentOf(m)}, queues.StatusPace)
		}
	}
	informer := c.mirrorFactory.ForResource(gvr).Informer()
	if err := errors.Join(informer.AddIndexers(cache.Indexers{byParent: parents}), informer.SetTransform(onlyNeeded),
		informer.SetWatchErrorHandlerWithContext(c.unwatched)); err != nil {
		return err
	}
	heard := cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, now any) { tell(now) }, DeleteFunc: tell}
	if all {
		heard.AddFunc = tell
	}
	_, err := informer.AddEventHandler(heard)
	c.mirrors[gvr] = informer
	return err
}

// WatchDeletions is told of the objects of a kind that go.
func (c *Client) WatchDeletions(gvr schema.GroupVersionResource, heard func(api.Key)) error {
	informer := c.mirrorFactory.ForResource(gvr).Informer()
	if err := errors.Join(informer.AddIndexers(cache.Indexers{byParent: parents}), informer.SetTransform(onlyNeeded),
		informer.SetWatchErrorHandlerWithContext(c.unwatched)); err != nil {
		return err
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
			heard(api.Key{Namespace: m.Namespace, Name: m.Name})
		}
	}})
	c.mirrors[gvr] = informer
	return err
}

// parentOf is what an object shows a placement or an override of.
func parentOf(m *metav1.PartialObjectMetadata) string {
	return cmp.Or(m.Labels[api.LabelParent], m.Labels[api.LabelOverride])
}

func parents(obj any) ([]string, error) {
	m, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return nil, nil
	}
	return []string{m.Namespace + "/" + parentOf(m)}, nil
}

// onlyNeeded drops what is not read.
func onlyNeeded(obj any) (any, error) {
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		m.ManagedFields = nil
	}
	return obj, nil
}

// Mirrored returns the objects that show something of a placement or an override, by their name. Only their metadata is
// kept: what is in them comes from the engine.
func (c *Client) Mirrored(gvr schema.GroupVersionResource, k api.Key) map[string]*metav1.PartialObjectMetadata {
	out := map[string]*metav1.PartialObjectMetadata{}
	found, err := c.mirrors[gvr].GetIndexer().ByIndex(byParent, k.Namespace+"/"+k.Name)
	if err != nil {
		return out
	}
	for _, obj := range found {
		if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
			out[m.Name] = m
		}
	}
	return out
}

// IsOwnedBy reports whether an object is an owner of a mirror.
func IsOwnedBy(m *metav1.PartialObjectMetadata, obj *unstructured.Unstructured) bool {
	return slices.ContainsFunc(m.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == obj.GetUID() })
}

// DeleteMirror deletes a mirror, if it is still the one that was seen.
func (c *Client) DeleteMirror(ctx context.Context, gvr schema.GroupVersionResource, m *metav1.PartialObjectMetadata) error {
	err := c.Dynamic.Resource(gvr).Namespace(m.Namespace).Delete(ctx, m.Name, exactly(m))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return Settled(err)
}

// Partial is the metadata of an object as an object.
func Partial(m *metav1.PartialObjectMetadata) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetNamespace(m.Namespace)
	u.SetName(m.Name)
	u.SetUID(m.UID)
	u.SetResourceVersion(m.ResourceVersion)
	return u
}
