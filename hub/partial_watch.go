package hub

import (
	"context"
	"errors"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
)

// partialWatch lists the objects of a kind and watches their metadata. Most of what
// changes in placements and runs is a status that the hub wrote itself, and may be
// long: such an object is what was seen of it, with that status. Any other is read.
type partialWatch struct {
	kind    schema.GroupVersionKind
	objects dynamic.NamespaceableResourceInterface
	meta    metadata.Getter
	written *written
	// seen is an object as it was last told of, or nil.
	seen func(key) *unstructured.Unstructured
}

// partialInformer tells of a kind whose statuses the hub writes.
func (s *service) partialInformer(in scope, base string) cache.SharedIndexInformer {
	gvr := in.gvr(base)
	w := &partialWatch{
		kind: in.gvk(base), objects: s.client.Resource(gvr), meta: s.meta.Resource(gvr), written: &s.written,
		seen: func(k key) *unstructured.Unstructured { return s.seen(gvr, k) },
	}
	informer := cache.NewSharedIndexInformer(w, &unstructured.Unstructured{}, 0, cache.Indexers{})
	s.partials = append(s.partials, informer)
	return informer
}

// IsWatchListSemanticsUnSupported keeps the objects that there are from being listed
// by the watch, one by one.
func (w *partialWatch) IsWatchListSemanticsUnSupported() bool { return true }

// List is ListWithContext, for the interface.
func (w *partialWatch) List(options metav1.ListOptions) (runtime.Object, error) {
	return w.ListWithContext(context.Background(), options)
}

// Watch is WatchWithContext, for the interface.
func (w *partialWatch) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return w.WatchWithContext(context.Background(), options)
}

// ListWithContext lists whole objects.
func (w *partialWatch) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	return w.objects.List(ctx, options)
}

// WatchWithContext tells of whole objects, as any watch does.
func (w *partialWatch) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	from, err := w.meta.Watch(ctx, options)
	if err != nil {
		return nil, err
	}
	events := make(chan watch.Event)
	to := watch.NewProxyWatcher(events)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		select {
		case <-to.StopChan():
		case <-ctx.Done():
		}
	}()
	go func() {
		defer close(events)
		defer cancel()
		defer from.Stop()
		w.copy(ctx, from.ResultChan(), events)
	}()
	return to, nil
}

// copy makes whole what comes in, until that or ctx ends.
func (w *partialWatch) copy(ctx context.Context, in <-chan watch.Event, out chan<- watch.Event) {
	for {
		select {
		case <-ctx.Done():
			return
		case event, ok := <-in:
			if !ok {
				return
			}
			whole, ok := w.whole(ctx, event)
			if !ok {
				continue
			}
			select {
			case <-ctx.Done():
				return
			case out <- whole:
			}
		}
	}
}

// whole is an event with the whole object; false where that is gone, of which another
// event tells.
func (w *partialWatch) whole(ctx context.Context, event watch.Event) (watch.Event, bool) {
	m, ok := event.Object.(*metav1.PartialObjectMetadata)
	if !ok {
		return event, true // an error
	}
	var obj *unstructured.Unstructured
	var err error
	switch event.Type {
	case watch.Added, watch.Modified:
		obj, err = w.object(ctx, m)
	default:
		obj, err = w.bare(m)
	}
	switch {
	case apierrors.IsNotFound(err):
		return watch.Event{}, false
	case err != nil:
		return failedWatch(err), true
	}
	return watch.Event{Type: event.Type, Object: obj}, true
}

// failedWatch ends a watch: what it should tell of is listed again.
func failedWatch(err error) watch.Event {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	s := status.Status()
	return watch.Event{Type: watch.Error, Object: &s}
}

// bare is an object with nothing but its metadata.
func (w *partialWatch) bare(m *metav1.PartialObjectMetadata) (*unstructured.Unstructured, error) {
	about := m.ObjectMeta
	about.ManagedFields = nil
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&about)
	if err != nil {
		return nil, err
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"metadata": fields}}
	obj.SetGroupVersionKind(w.kind)
	return obj, nil
}

// object is an object of which the metadata are known.
func (w *partialWatch) object(ctx context.Context, m *metav1.PartialObjectMetadata) (*unstructured.Unstructured, error) {
	mark, marked := w.written.settled(ctx, m.UID)
	if obj := w.written.take(m.UID, m.ResourceVersion); obj != nil {
		return obj, nil
	}
	if marked {
		if obj := w.asWritten(m, mark); obj != nil {
			return obj, nil
		}
	}
	obj, err := w.objects.Namespace(m.Namespace).Get(ctx, m.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	// It may be newer than what is told of, of which the watch tells next: who goes on
	// from here has to hear of that, and of what changed before it elsewhere.
	obj.SetResourceVersion(m.ResourceVersion)
	return obj, nil
}

// asWritten is an object in which nothing changed but the status, which the hub wrote;
// nil if that is not so. Of the status it has what the hub reads again.
func (w *partialWatch) asWritten(m *metav1.PartialObjectMetadata, mark statusMark) *unstructured.Unstructured {
	seen := w.seen(key{Namespace: m.Namespace, Name: m.Name})
	if seen == nil || seen.GetUID() != m.UID || seen.GetGeneration() != m.Generation || m.DeletionTimestamp != nil {
		return nil
	}
	if mark.version != m.ResourceVersion || mark.readAgain == nil {
		return nil
	}
	obj, err := w.bare(m)
	if err != nil {
		return nil
	}
	about := obj.Object["metadata"]
	obj.Object = maps.Clone(seen.Object)
	obj.Object["metadata"], obj.Object["status"] = about, mark.readAgain
	return obj
}
