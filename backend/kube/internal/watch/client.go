package watch

import (
	"cmp"
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/slipway-dev/slipway/backend/kube/internal/api"
)

// Client lists and watches the objects of a kind. [Of] makes one from the methods of client-go's
// dynamic and metadata clients.
type Client struct {
	list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
	// Timeout limits a page of a list, and the time until a watch has begun; zero means
	// [api.AnswerTimeout]. A proxy in between may lose an answer.
	Timeout time.Duration
}

// Of returns the client of a list and a watch.
func Of[L runtime.Object](list func(context.Context, metav1.ListOptions) (L, error), begin func(context.Context, metav1.ListOptions) (watch.Interface, error)) Client {
	return Client{
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			l, err := list(ctx, o)
			if err != nil {
				return nil, err
			}
			return l, nil
		},
		watch: begin,
	}
}

// PageSize is the number of objects per page of a list if the options set no limit.
const PageSize = 500

// expiredTries is the maximum number of times that a list begins again after its pages expired.
const expiredTries = 3

// List passes all objects to each, page by page, and returns the resourceVersion of the list. If
// a page has expired, the list begins again; List calls begin at every beginning.
func (c Client) List(ctx context.Context, o metav1.ListOptions, begin func(), each func(metav1.Object) error) (version string, err error) {
	o.Limit = cmp.Or(o.Limit, PageSize)
	begin()
	for tries := 0; ; {
		page, err := c.page(ctx, o)
		if api.IsExpired(err) && o.Continue != "" && tries < expiredTries {
			tries++
			o.Continue = ""
			begin()
			continue
		}
		if err != nil {
			return "", err
		}
		about, err := meta.ListAccessor(page)
		if err != nil {
			return "", err
		}
		if err := meta.EachListItem(page, func(item runtime.Object) error {
			obj, ok := item.(metav1.Object)
			if !ok {
				return errNoObject
			}
			return each(obj)
		}); err != nil {
			return "", err
		}
		if o.Continue = about.GetContinue(); o.Continue == "" {
			return about.GetResourceVersion(), nil
		}
	}
}

func (c Client) page(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout())
	defer cancel()
	return c.list(ctx, o)
}

func (c Client) timeout() time.Duration { return cmp.Or(c.Timeout, api.AnswerTimeout) }

// VersionOnly returns a client whose list has no objects, only the resourceVersion for the start
// of a watch.
func (c Client) VersionOnly() Client {
	list := c.list
	c.list = func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		o.Limit = 1
		l, err := list(ctx, o)
		if err != nil {
			return nil, err
		}
		about, err := meta.ListAccessor(l)
		if err != nil {
			return nil, err
		}
		return listOf(about.GetResourceVersion()), nil
	}
	return c
}

func listOf(version string) *metav1.PartialObjectMetadataList {
	return &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: version}}
}

var (
	// errNoAnswer and errNoObject are transient.
	errNoAnswer = errors.New("the API server does not answer")
	errNoObject = errors.New("the API server sent something that is no object")
)

// open returns a watch that has begun in time, and a function that ends its request.
func (c Client) open(ctx context.Context, o metav1.ListOptions) (watch.Interface, context.CancelFunc, error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(c.timeout(), cancel)
	w, err := c.watch(ctx, o)
	if !late.Stop() {
		if err == nil {
			w.Stop()
		}
		err = errNoAnswer
	}
	if err != nil {
		cancel()
		return nil, nil, err
	}
	return w, func() { w.Stop(); cancel() }, nil
}
