package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/slipway-dev/slipway/backend/kube/internal/api"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// listPage is how many objects a page of a list has, listPages how many pages are read at most.
	listPage  = 250
	listPages = 1000
	// Of what is watched only the metadata is asked for.
	listType  = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	eventType = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)

// objectMeta is what is read of an object that is watched.
type objectMeta struct {
	Metadata struct {
		Name            string `json:"name"`
		Namespace       string `json:"namespace"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
}

func (o objectMeta) name() name { return name{o.Metadata.Namespace, o.Metadata.Name} }

// event is a message of a watch.
type event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// query selects the objects of a scope.
func (s scope) query() url.Values {
	q := url.Values{}
	if s.labelled {
		q.Set("labelSelector", appliedLabel)
	}
	if s.name != "" {
		q.Set("fieldSelector", "metadata.name="+s.name)
	}
	return q
}

// follow tells of changes after a resourceVersion, after the present where it is empty, until the
// stream ends. It returns the last resourceVersion that it saw.
func (w *watches) follow(ctx context.Context, f *feed, version string) (string, error) {
	if version == "" {
		var err error
		if version, err = w.list(ctx, f); err != nil {
			return "", err
		}
	}
	q := f.query()
	q.Set("watch", "true")
	q.Set("allowWatchBookmarks", "true")
	q.Set("resourceVersion", version)
	body, err := w.client.stream(ctx, request{verb: http.MethodGet, path: f.kind.collection(f.namespace), query: q, accept: eventType})
	if err != nil {
		return version, err
	}
	defer func() { _ = body.Close() }()
	f.opened = time.Now()
	w.begin(f)
	return w.events(f, body, version)
}

// events hands on what a watch says.
func (w *watches) events(f *feed, body io.Reader, version string) (string, error) {
	from := &frames{from: body, limit: w.client.limits.Bytes}
	d := json.NewDecoder(from)
	for {
		var e event
		if err := d.Decode(&e); err != nil {
			return version, streamError(err)
		}
		from.next()
		if e.Type == "ERROR" {
			return version, statusOfEvent(e.Object)
		}
		var o objectMeta
		if err := json.Unmarshal(e.Object, &o); err != nil || o.Metadata.ResourceVersion == "" {
			return version, errors.New("the member's watch sent something that is no object")
		}
		version = o.Metadata.ResourceVersion
		if e.Type == "BOOKMARK" {
			continue
		}
		if err := w.told(f, o.name(), e.Type == "DELETED"); err != nil {
			return version, err
		}
	}
}

// streamError returns why a stream ended, nil where it just did. What was wrong is not quoted.
func streamError(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil
	case errors.As(err, &syntax), errors.As(err, &kind):
		return errors.New("the member's answer is no JSON of the kind that was asked for")
	}
	return err
}

// statusOfEvent returns the error that a watch ends with.
func statusOfEvent(object []byte) error {
	var status metav1.Status
	if err := json.Unmarshal(object, &status); err != nil || status.Code == 0 {
		return errors.New("the member's watch ended with an error that is no Status")
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// list reads which objects there are, page by page, and returns the resourceVersion of that.
func (w *watches) list(ctx context.Context, f *feed) (string, error) {
	names, next := map[name]struct{}{}, ""
	for range listPages {
		page, err := w.page(ctx, f, next, names)
		if err != nil {
			return "", err
		}
		if next = page.Continue; next == "" {
			w.refill(f, names)
			return page.ResourceVersion, nil
		}
	}
	return "", api.Permanent(fmt.Errorf("the member's list of %s has more than %d pages", f.kind.resource, listPages))
}

func (w *watches) page(ctx context.Context, f *feed, from string, names map[name]struct{}) (metav1.ListMeta, error) {
	ctx, cancel := context.WithTimeout(ctx, w.client.timeout)
	defer cancel()
	q := f.query()
	q.Set("limit", strconv.Itoa(listPage))
	if from != "" {
		q.Set("continue", from)
	}
	body, err := w.client.stream(ctx, request{verb: http.MethodGet, path: f.kind.collection(f.namespace), query: q, accept: listType})
	if err != nil {
		return metav1.ListMeta{}, err
	}
	defer func() { _ = body.Close() }()
	p := pageReader{json.NewDecoder(&frames{from: body, limit: w.client.limits.Bytes}), w.client.limits, names}
	meta, err := p.read()
	if err == nil && meta.ResourceVersion == "" {
		err = errors.New("the member's list has no resourceVersion")
	}
	return meta, err
}

// pageReader reads a list object by object and keeps only names.
type pageReader struct {
	*json.Decoder
	limits Limits
	names  map[name]struct{}
}

func (p pageReader) read() (meta metav1.ListMeta, err error) {
	if _, err := p.Token(); err != nil {
		return meta, pageError(err)
	}
	for p.More() {
		field, err := p.Token()
		if err != nil {
			return meta, pageError(err)
		}
		switch field {
		case "metadata":
			err = p.Decode(&meta)
		case "items":
			err = p.items()
		default:
			err = p.Decode(&json.RawMessage{})
		}
		if err != nil {
			return meta, pageError(err)
		}
	}
	return meta, nil
}

func (p pageReader) items() error {
	open, err := p.Token()
	if err != nil || open == nil { // null has none
		return err
	}
	for p.More() {
		var o objectMeta
		if err := p.Decode(&o); err != nil {
			return err
		}
		if err := p.limits.name(o.name(), p.names); err != nil {
			return err
		}
		p.names[o.name()] = struct{}{}
	}
	_, err = p.Token()
	return err
}

// pageError is for a list, which must not just end.
func pageError(err error) error {
	if told := streamError(err); told != nil {
		return told
	}
	return errors.New("the member's list ends before its end")
}
