package watch

import (
	"context"
	"errors"
	"time"

	"github.com/slipway-dev/slipway/backend/kube/internal/api"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
)

// Collection is what an API server has of one kind.
type Collection interface {
	List(ctx context.Context, o metav1.ListOptions) ([]metav1.Object, metav1.ListMeta, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// WholeObjects is a collection of unstructured objects.
type WholeObjects struct{ From dynamic.ResourceInterface }

func (c WholeObjects) List(ctx context.Context, o metav1.ListOptions) ([]metav1.Object, metav1.ListMeta, error) {
	list, err := c.From.List(ctx, o)
	if err != nil {
		return nil, metav1.ListMeta{}, err
	}
	out := make([]metav1.Object, len(list.Items))
	for i := range list.Items {
		out[i] = &list.Items[i]
	}
	return out, metav1.ListMeta{Continue: list.GetContinue(), ResourceVersion: list.GetResourceVersion()}, nil
}

func (c WholeObjects) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return c.From.Watch(ctx, o)
}

// MetadataOnly is a collection of metav1.PartialObjectMetadata.
type MetadataOnly struct{ From metadata.ResourceInterface }

func (c MetadataOnly) List(ctx context.Context, o metav1.ListOptions) ([]metav1.Object, metav1.ListMeta, error) {
	list, err := c.From.List(ctx, o)
	if err != nil {
		return nil, metav1.ListMeta{}, err
	}
	out := make([]metav1.Object, len(list.Items))
	for i := range list.Items {
		out[i] = &list.Items[i]
	}
	return out, list.ListMeta, nil
}

func (c MetadataOnly) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return c.From.Watch(ctx, o)
}

const (
	// pageSize is how many objects a page of a list has by default.
	PageSize = 500
	// expiredTries is how often a list is begun again that took so long that its
	// pages expired.
	expiredTries = 3
)

// ListAll reads all pages of a list, and returns the resourceVersion of it.
func ListAll(ctx context.Context, c Collection, o metav1.ListOptions) (all []metav1.Object, version string, err error) {
	for tries := 0; ; {
		page, meta, err := c.List(ctx, o)
		if api.IsExpired(err) && o.Continue != "" && tries < expiredTries {
			tries++
			all, o.Continue = nil, ""
			continue
		}
		if err != nil {
			return nil, "", err
		}
		all = append(all, page...)
		if o.Continue = meta.Continue; o.Continue == "" {
			return all, meta.ResourceVersion, nil
		}
	}
}

// inTime is a collection that does not wait for ever for an answer that does not
// come: something between here and the API server may have lost it.
type inTime struct {
	Collection
	within time.Duration
}

func (c inTime) List(ctx context.Context, o metav1.ListOptions) ([]metav1.Object, metav1.ListMeta, error) {
	ctx, cancel := context.WithTimeout(ctx, c.within)
	defer cancel()
	return c.Collection.List(ctx, o)
}

func (c inTime) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return Begun(ctx, c.within, func(ctx context.Context) (watch.Interface, error) { return c.Collection.Watch(ctx, o) })
}

// errNoAnswer is transient.
var errNoAnswer = errors.New("the API server does not answer")

// Begun returns a watch that has begun in time.
func Begun(ctx context.Context, within time.Duration, begin func(context.Context) (watch.Interface, error)) (watch.Interface, error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(within, cancel)
	w, err := begin(ctx)
	switch inTime := late.Stop(); {
	case !inTime && err == nil:
		w.Stop()
		err = errNoAnswer
	case !inTime:
		err = errNoAnswer
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return cancelling{w, cancel}, nil
}

// cancelling is a watch whose request ends with it.
type cancelling struct {
	watch.Interface
	cancel context.CancelFunc
}

func (c cancelling) Stop() {
	c.Interface.Stop()
	c.cancel()
}

// Reflector tells of the changes of a collection for as long as its context
// lasts. It has no state but a resourceVersion: after every interruption that
// may have hidden a change it begins again.
type Reflector struct {
	From Collection
	// contents tells to list what there is at each beginning. Otherwise only the
	// resourceVersion is asked for.
	Contents bool
	// begin is told what there is, at the beginning and after what may have
	// hidden changes.
	Begin func([]metav1.Object)
	Event func(deleted bool, obj metav1.Object)
	// failed is told that changes are not seen at present.
	Failed func(error)
}

// The pauses between two tries double from the first to the second.
const (
	reflectPause     = 100 * time.Millisecond
	reflectLongPause = 2 * time.Second
)

func (r *Reflector) Run(ctx context.Context) {
	r.From = inTime{r.From, api.AnswerTimeout}
	version, pause := "", reflectPause
	for ctx.Err() == nil {
		seen, err := r.follow(ctx, version)
		switch {
		case err == nil && seen != "":
			version, pause = seen, reflectPause
			continue
		case err == nil, api.IsExpired(err):
		case ctx.Err() == nil:
			r.Failed(err)
		}
		// A client takes some lost connections for watches of which nothing came
		// before they ended. A list says what is wrong.
		version = ""
		if !api.Paused(ctx, pause) {
			return
		}
		pause = min(2*pause, reflectLongPause)
	}
}

// follow says what changes after version, or where that is empty what there is
// and then what changes, until the server ends the watch. It returns the version
// from which to go on, if anything was seen.
func (r *Reflector) follow(ctx context.Context, version string) (string, error) {
	if version == "" {
		var err error
		if version, err = r.list(ctx); err != nil {
			return "", err
		}
	}
	seen, err := r.watch(ctx, version)
	if seen == version {
		seen = ""
	}
	return seen, err
}

// list says what there is and returns its resourceVersion.
func (r *Reflector) list(ctx context.Context) (string, error) {
	if !r.Contents {
		_, meta, err := r.From.List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil {
			r.Begin(nil)
		}
		return meta.ResourceVersion, err
	}
	all, version, err := ListAll(ctx, r.From, metav1.ListOptions{Limit: PageSize})
	if err == nil {
		r.Begin(all)
	}
	return version, err
}

// watch says what changes after version until the server ends it, and returns
// the last version that it saw.
func (r *Reflector) watch(ctx context.Context, version string) (string, error) {
	w, err := r.From.Watch(ctx, metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true})
	if err != nil {
		return "", err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case e, ok := <-w.ResultChan():
			if !ok {
				return version, nil
			}
			obj, isObject := e.Object.(metav1.Object)
			if e.Type == watch.Error || !isObject {
				return "", watchError(e)
			}
			version = obj.GetResourceVersion()
			if e.Type != watch.Bookmark {
				r.Event(e.Type == watch.Deleted, obj)
			}
		}
	}
}

var errNoObject = errors.New("the watch sent something that is no object")

func watchError(e watch.Event) error {
	if e.Type == watch.Error {
		return apierrors.FromObject(e.Object)
	}
	return errNoObject
}
