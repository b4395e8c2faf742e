package remotefleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// call is a request.
type call struct {
	Op      string                `json:"op"`
	Cluster placement.Cluster     `json:"cluster"`
	ID      snapshot.ID           `json:"id"`
	Object  map[string]any        `json:"object,omitempty"`
	Apply   backend.ApplyOptions  `json:"apply"`
	Delete  backend.DeleteOptions `json:"delete"`
}

// answer is the answer to a call.
type answer struct {
	Clusters []placement.Cluster `json:"clusters,omitempty"`
	Object   map[string]any      `json:"object,omitempty"`
	// Kind is the kind of error, Error its text. Conflict is set if it is a
	// [backend.FieldConflictError].
	Kind     string                      `json:"kind,omitempty"`
	Error    string                      `json:"error,omitempty"`
	Conflict *backend.FieldConflictError `json:"conflict,omitempty"`
}

// kinds returns the distinguished errors.
func kinds() map[string]error {
	return map[string]error{
		"notFound": backend.ErrNotFound, "conflict": backend.ErrConflict, "fenced": backend.ErrFenced, "permanent": backend.ErrPermanent,
	}
}

// Serve answers calls for a fleet until the listener is closed. written, which may be nil, is
// called after each successful write of an object.
func Serve(l net.Listener, fleet *memory.Fleet, written func(cluster string, obj *unstructured.Unstructured)) error {
	handle := func(w http.ResponseWriter, r *http.Request) {
		var c call
		if err := decode(r.Body, &c); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		a, err := do(r.Context(), fleet, &c)
		if err != nil {
			a = answer{Error: err.Error()}
			_ = errors.As(err, &a.Conflict)
			for kind, is := range kinds() {
				if errors.Is(err, is) {
					a.Kind = kind
				}
			}
		} else if written != nil && c.Op == "apply" {
			written(c.Cluster.Name, objectOf(c.Object))
		}
		_ = json.NewEncoder(w).Encode(a)
	}
	server := &http.Server{Handler: http.HandlerFunc(handle), ReadHeaderTimeout: time.Minute}
	err := server.Serve(l)
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// do performs a call.
func do(ctx context.Context, fleet *memory.Fleet, c *call) (a answer, err error) {
	if c.Op == "clusters" {
		for cl, err := range fleet.Clusters(ctx) {
			if err != nil {
				return a, err
			}
			a.Clusters = append(a.Clusters, cl)
		}
		return a, nil
	}
	conn, err := fleet.Dial(ctx, c.Cluster)
	if err != nil {
		return a, err
	}
	defer func() { _ = conn.Close() }()
	switch c.Op {
	case "get":
		var obj *unstructured.Unstructured
		if obj, err = conn.Get(ctx, c.ID); err == nil {
			a.Object = obj.Object
		}
	case "apply":
		var obj *unstructured.Unstructured
		if obj, err = conn.Apply(ctx, objectOf(c.Object), c.Apply); err == nil {
			a.Object = obj.Object
		}
	case "delete":
		err = conn.Delete(ctx, c.ID, c.Delete)
	default:
		err = fmt.Errorf("there is no operation %q: %w", c.Op, backend.ErrPermanent)
	}
	return a, err
}

// decode reads JSON without converting numbers; objectOf converts the numbers of objects.
func decode(r io.Reader, into any) error {
	d := json.NewDecoder(r)
	d.UseNumber()
	return d.Decode(into)
}

// objectOf returns an object with the number types of objects.
func objectOf(content map[string]any) *unstructured.Unstructured {
	if content == nil {
		return nil
	}
	_ = utiljson.ConvertMapNumbers(content, 0) // an object that goes deeper is refused by its cluster
	return &unstructured.Unstructured{Object: content}
}

// Fleet is the fleet of another process. It is a [backend.Inventory] and a [backend.Dialer].
type Fleet struct {
	url    string
	client *http.Client
}

// Dial returns the fleet that is served at an address. It connects at the first use.
func Dial(address string) *Fleet {
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	return &Fleet{url: "http://" + address, client: &http.Client{Transport: transport}}
}

// Clusters yields the clusters.
func (f *Fleet) Clusters(ctx context.Context) iter.Seq2[placement.Cluster, error] {
	return func(yield func(placement.Cluster, error) bool) {
		a, err := f.call(ctx, &call{Op: "clusters"})
		if err != nil {
			yield(placement.Cluster{}, err)
			return
		}
		for _, c := range a.Clusters {
			if !yield(c, nil) {
				return
			}
		}
	}
}

// Dial returns a connection to a cluster with atomic fences.
func (f *Fleet) Dial(_ context.Context, c placement.Cluster) (backend.Conn, error) {
	return &conn{f, c}, nil
}

func (f *Fleet) call(ctx context.Context, c *call) (answer, error) {
	body, err := json.Marshal(c)
	if err != nil {
		return answer{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	var a answer
	if err := decode(resp.Body, &a); err != nil {
		return answer{}, fmt.Errorf("%s: %w", resp.Status, err)
	}
	switch {
	case a.Conflict != nil:
		return a, a.Conflict
	case a.Kind != "":
		return a, fmt.Errorf("%s: %w", a.Error, kinds()[a.Kind])
	case a.Error != "":
		return a, errors.New(a.Error)
	}
	return a, nil
}

// conn is a connection to a cluster.
type conn struct {
	fleet   *Fleet
	cluster placement.Cluster
}

var _ backend.ConnFencer = (*conn)(nil)

func (c *conn) Get(ctx context.Context, id snapshot.ID) (*unstructured.Unstructured, error) {
	a, err := c.fleet.call(ctx, &call{Op: "get", Cluster: c.cluster, ID: id})
	return objectOf(a.Object), err
}

func (c *conn) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	a, err := c.fleet.call(ctx, &call{Op: "apply", Cluster: c.cluster, Object: obj.Object, Apply: o})
	return objectOf(a.Object), err
}

func (c *conn) Delete(ctx context.Context, id snapshot.ID, o backend.DeleteOptions) error {
	_, err := c.fleet.call(ctx, &call{Op: "delete", Cluster: c.cluster, ID: id, Delete: o})
	return err
}

// Fencing returns atomic, as for clusters in memory.
func (c *conn) Fencing() backend.Fencing { return backend.FencingAtomic }

func (c *conn) Close() error { return nil }
