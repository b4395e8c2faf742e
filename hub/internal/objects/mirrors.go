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

// byParent indexes mirrors by the placement or override that they show.
const byParent = "parent"

// WatchMetadata watches the metadata of mirrors. It adds the parents of changed and deleted
// mirrors to shows, and with all also the parents of added ones, because these may have been
// deleted before.
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

// WatchDeletions calls heard for each deleted object of a kind.
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

// parentOf returns the name of the placement or override that a mirror shows.
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

// onlyNeeded drops the managed fields, which are not read.
func onlyNeeded(obj any) (any, error) {
	if m, ok := obj.(*metav1.PartialObjectMetadata); ok {
		m.ManagedFields = nil
	}
	return obj, nil
}

// Mirrored returns the mirrors of a placement or an override, by their name. The cache has only
// their metadata, because their content comes from the engine.
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

// DeleteMirror deletes a mirror, if it still has the UID that was seen.
func (c *Client) DeleteMirror(ctx context.Context, gvr schema.GroupVersionResource, m *metav1.PartialObjectMetadata) error {
	err := c.Dynamic.Resource(gvr).Namespace(m.Namespace).Delete(ctx, m.Name, exactly(m))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return Settled(err)
}

// Partial returns an object with the name, namespace, UID and resourceVersion of m.
func Partial(m *metav1.PartialObjectMetadata) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetNamespace(m.Namespace)
	u.SetName(m.Name)
	u.SetUID(m.UID)
	u.SetResourceVersion(m.ResourceVersion)
	return u
}
