package member

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/internal/api"
	"github.com/slipway-dev/slipway/backend/kube/internal/watch"
)

const (
	// listPage is the number of objects per page of a list, listPages the greatest number of pages.
	listPage  = 250
	listPages = 1000
	// A watch requests only metadata.
	listType  = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	eventType = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)

// scope is the subject of a watch: the objects of a kind, all of them, those in a namespace, or a
// single one by name.
type scope struct {
	kind      served
	namespace string
	name      string
}

// openWatch returns the parts of the watch of a scope. It keeps no objects, so it does not list
// existing ones.
func (c *client) openWatch(at scope) (watch.Client, metav1.ListOptions, watch.NoIndex) {
	o := metav1.ListOptions{}
	if at.name != "" {
		o.FieldSelector = "metadata.name=" + at.name
	}
	path := at.kind.collection(at.namespace)
	from := watch.Of(func(ctx context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
		return c.listMeta(ctx, path, o)
	}, func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
		return c.watchMeta(ctx, path, o)
	})
	from.Timeout = c.timeout
	return from.VersionOnly(), o, watch.NoIndex{}
}

// objectMeta is the part of a watched object that is read.
type objectMeta struct {
	Metadata struct {
		Name            string `json:"name"`
		Namespace       string `json:"namespace"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
}

func (o objectMeta) object() metav1.PartialObjectMetadata {
	return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: o.Metadata.Name, Namespace: o.Metadata.Namespace, ResourceVersion: o.Metadata.ResourceVersion,
	}}
}

func queryOf(o metav1.ListOptions) url.Values {
	q := url.Values{}
	for key, value := range map[string]string{
		"fieldSelector": o.FieldSelector, "continue": o.Continue, "resourceVersion": o.ResourceVersion,
	} {
		if value != "" {
			q.Set(key, value)
		}
	}
	return q
}

// metaPage is a page of metadata; T is the part of an object that the reader needs.
type metaPage[T any] struct {
	Metadata metav1.ListMeta `json:"metadata"`
	Items    []T             `json:"items"`
}

// readPage reads a page of metadata into a metaPage.
func (c *client) readPage(ctx context.Context, path string, o metav1.ListOptions, into any) error {
	return c.readPageAs(ctx, path, o, listType, into)
}

// readPageAs reads a page of a list in a requested form; empty means whole objects.
func (c *client) readPageAs(ctx context.Context, path string, o metav1.ListOptions, form string, into any) error {
	q := queryOf(o)
	q.Set("limit", strconv.FormatInt(o.Limit, 10))
	body, err := c.do(ctx, request{verb: http.MethodGet, path: path, query: q, accept: form})
	if err != nil {
		return err
	}
	if err := c.limits.check(body); err != nil {
		return api.Permanent(err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return errors.New("the member's list is no JSON of the kind that was asked for")
	}
	return nil
}

// listMeta returns a page of metadata.
func (c *client) listMeta(ctx context.Context, path string, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	var page metaPage[objectMeta]
	if err := c.readPage(ctx, path, o, &page); err != nil {
		return nil, err
	}
	list := &metav1.PartialObjectMetadataList{ListMeta: page.Metadata, Items: make([]metav1.PartialObjectMetadata, len(page.Items))}
	for i, item := range page.Items {
		list.Items[i] = item.object()
	}
	return list, nil
}

// watchMeta watches metadata.
func (c *client) watchMeta(ctx context.Context, path string, o metav1.ListOptions) (apiwatch.Interface, error) {
	q := queryOf(o)
	q.Set("watch", "true")
	q.Set("allowWatchBookmarks", "true")
	if o.TimeoutSeconds != nil {
		q.Set("timeoutSeconds", strconv.FormatInt(*o.TimeoutSeconds, 10))
	}
	body, err := c.stream(ctx, request{verb: http.MethodGet, path: path, query: q, accept: eventType})
	if err != nil {
		return nil, err
	}
	from := &frames{from: body, limit: c.limits.Bytes}
	return apiwatch.NewStreamWatcher(&decoder{body: body, frames: from, json: json.NewDecoder(from)}, nil), nil
}

// decoder decodes the events of a watch. An error is the last event.
type decoder struct {
	body   io.Closer
	frames *frames
	json   *json.Decoder
	ended  bool
}

func (d *decoder) Close() { _ = d.body.Close() }

// Decode implements [apiwatch.Decoder].
func (d *decoder) Decode() (apiwatch.EventType, runtime.Object, error) {
	var e struct {
		Type   apiwatch.EventType `json:"type"`
		Object json.RawMessage    `json:"object"`
	}
	if d.ended {
		return "", nil, io.EOF
	}
	err := d.json.Decode(&e)
	d.frames.next()
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	var o objectMeta
	switch {
	case errors.Is(err, backend.ErrPermanent):
	case errors.As(err, &syntax), errors.As(err, &kind):
		err = errors.New("the member's watch is no JSON of the kind that was asked for") // not quoted
	case err != nil:
		return "", nil, io.EOF // the watch resumes at the same version
	case e.Type == apiwatch.Error:
		err = statusOf(e.Object)
	case json.Unmarshal(e.Object, &o) != nil:
		err = errors.New("the member's watch sent something that is no object")
	}
	if d.ended = err != nil; d.ended {
		failed := watch.Failed(err)
		return failed.Type, failed.Object, nil
	}
	obj := o.object()
	return e.Type, &obj, nil
}

// statusOf returns the error that ended a watch.
func statusOf(object []byte) error {
	var status metav1.Status
	if err := json.Unmarshal(object, &status); err != nil || status.Code == 0 {
		return errors.New("the member's watch ended with an error that is no Status")
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// name identifies an object among the objects of its kind.
type name struct{ namespace, name string }

func nameOf(obj metav1.Object) name { return name{obj.GetNamespace(), obj.GetName()} }
