package takeover

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// Write is a requested write of a record, which has a Key, or of an object, which has a Cluster and
// an ID.
type Write struct {
	// Client is the name of the client that made the request.
	Client string
	// Op is put, delete, apply or release.
	Op string
	// Key, Value and Prev belong to a record.
	Key   string
	Value []byte
	Prev  backend.Revision
	// Cluster, ID, Manager and Precondition belong to an object. Object is the applied object and
	// must not be changed.
	Cluster      string
	ID           snapshot.ID
	Manager      string
	Precondition backend.Precondition
	Object       *unstructured.Unstructured
	// Now is the member's object after an apply.
	Now *unstructured.Unstructured
	// Err is the reason for the refusal of the write; nil if it was accepted or is not made yet.
	Err error
}

// String formats the write as one line.
func (w Write) String() string {
	what := w.Key + " at " + string(w.Prev)
	if w.Cluster != "" {
		what = fmt.Sprintf("%s on %s at %+v", w.ID, w.Cluster, w.Precondition)
	}
	result := "accepted"
	if w.Err != nil {
		result = "refused: " + w.Err.Error()
	}
	return fmt.Sprintf("%s: %s %s, epoch %d: %s", w.Client, w.Op, what, w.Epoch(), result)
}

// Epoch returns the fencing epoch in the written lease of a run, placement, ledger, or object that
// was marked in a takeover; 0 if there is none.
func (w Write) Epoch() int64 {
	if w.Cluster == "" {
		return epochOf(w.Value)
	}
	if w.Object == nil {
		return 0
	}
	if text, ok, _ := unstructured.NestedString(w.Object.Object, "data", "ledger"); ok {
		return epochOf([]byte(text))
	}
	for key, value := range w.Object.GetAnnotations() {
		if strings.HasPrefix(key, "epoch.slipway.dev/") {
			text, _, _ := strings.Cut(value, ".")
			epoch, _ := strconv.ParseInt(text, 10, 64)
			return epoch
		}
	}
	return 0
}

func epochOf(value []byte) int64 {
	var rec struct {
		Epoch int64 `json:"epoch"`
		Lease struct {
			Epoch int64 `json:"epoch"`
		} `json:"lease"`
	}
	_ = json.Unmarshal(value, &rec) // a value that is no record has no epoch
	return max(rec.Epoch, rec.Lease.Epoch)
}

func (s *Server) before(ctx context.Context, w Write) {
	if s.cfg.Before != nil {
		s.cfg.Before(ctx, w)
	}
}

func (s *Server) seen(w Write, err error) {
	if w.Err = err; s.cfg.Seen != nil {
		s.cfg.Seen(w)
	}
}

// write makes the writes of records. Writes after a refused one are neither made nor reported.
func (c *call) write(s backend.Store) (reply, error) {
	all := make([]Write, len(c.q.Writes))
	for i, w := range c.q.Writes {
		all[i] = Write{Client: c.client, Op: "put", Key: w.Key, Value: w.Value, Prev: w.Prev}
		if w.Delete {
			all[i].Op = "delete"
		}
		c.s.before(c.ctx, all[i])
	}
	c.s.order.Lock()
	defer c.s.order.Unlock()
	made, err := backend.WriteAll(c.ctx, s, c.q.Writes)
	for i, w := range all {
		if i < len(made) {
			c.s.seen(w, nil)
		} else if i == len(made) {
			c.s.seen(w, err)
		}
	}
	return reply{Revisions: made}, err
}

func (c *call) onConn(conn backend.Conn) (reply, error) {
	if c.q.Op == opWatchObjects {
		return reply{}, forward(c, backend.WatchConn(c.ctx, conn, c.q.IDs, 0), signal)
	}
	if c.q.Op == opApply && c.q.Object.Unstructured != nil {
		return c.apply(conn)
	}
	if len(c.q.IDs) != 1 {
		return reply{}, fmt.Errorf("%w: %q names no object", backend.ErrPermanent, c.q.Op)
	}
	switch c.q.Op {
	case opGetObject:
		obj, err := conn.Get(c.ctx, c.q.IDs[0])
		return reply{Object: object{obj}}, err
	case opDelete:
		return reply{}, c.delete(conn)
	}
	return reply{}, fmt.Errorf("%w: nothing is called %q", backend.ErrPermanent, c.q.Op)
}

func (c *call) apply(conn backend.Conn) (reply, error) {
	obj, o := c.q.Object.Unstructured, c.q.Apply
	w := Write{
		Client: c.client, Op: "apply", Cluster: c.q.Cluster.Name, ID: snapshot.IDOf(obj), Manager: o.Manager,
		Precondition: o.Precondition, Object: obj,
	}
	c.s.before(c.ctx, w)
	c.s.order.Lock()
	defer c.s.order.Unlock()
	got, err := conn.Apply(c.ctx, obj, o)
	w.Now = got
	c.s.seen(w, err)
	return reply{Object: object{got}}, err
}

func (c *call) delete(conn backend.Conn) error {
	id, o := c.q.IDs[0], backend.DeleteOptions{}
	if c.q.Delete != nil {
		o = *c.q.Delete
	}
	w := Write{
		Client: c.client, Op: "delete", Cluster: c.q.Cluster.Name, ID: id, Manager: o.Manager, Precondition: o.Precondition,
	}
	if o.Release {
		w.Op = "release"
	}
	c.s.before(c.ctx, w)
	c.s.order.Lock()
	defer c.s.order.Unlock()
	err := conn.Delete(c.ctx, id, o)
	c.s.seen(w, err)
	return err
}
