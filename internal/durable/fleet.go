package durable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// Fleet is a [memory.Fleet] whose clusters are in a store, under member/<name>. Open, OpenAll and
// Replace add clusters; connections and Change change them. Changes made in other ways are stored
// with the next change. Labels, clocks, controllers and faults are not stored.
type Fleet struct {
	*memory.Fleet
	// Shared makes each call read the stored state first, because other processes have a fleet on
	// the same store. It must be set before the first cluster is added.
	Shared bool

	store backend.Store

	mu      turn
	members map[string]*member
}

// turn is a mutex for goroutines that wait for a clock while they hold it. In a synctest bubble
// the clock advances although others wait for the turn, because they wait for a channel.
type turn chan struct{}

func (t turn) Lock()   { t <- struct{}{} }
func (t turn) Unlock() { <-t }

// prefix is the prefix of the keys of clusters.
const prefix = "member/"

// member is a cluster and its record.
type member struct {
	mu      turn
	shared  bool
	made    int // how many clusters had the name before
	cluster *memory.Cluster
	record  record
}

// memberRecord is the record of a cluster.
type memberRecord struct {
	Format int             `json:"format"`
	Made   int             `json:"made,omitempty"`
	State  json.RawMessage `json:"state"`
}

// NewFleet returns a fleet without clusters.
func NewFleet(s backend.Store) *Fleet {
	return &Fleet{Fleet: memory.NewFleet(), store: s, mu: make(turn, 1), members: map[string]*member{}}
}

// Open adds clusters with their stored state, or empty ones. The UID of each cluster depends on
// its name and its number of replacements.
func (f *Fleet) Open(ctx context.Context, clusters ...placement.Cluster) error {
	for _, c := range clusters {
		if err := f.add(ctx, c, false); err != nil {
			return err
		}
	}
	return nil
}

// OpenAll adds the clusters that the store has, without labels.
func (f *Fleet) OpenAll(ctx context.Context) error {
	for rec, err := range f.store.List(ctx, prefix) {
		if err == nil {
			err = f.Open(ctx, placement.Cluster{Name: strings.TrimPrefix(rec.Key, prefix)})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Replace adds an empty cluster in place of a stored cluster of the same name, whose objects are
// lost.
func (f *Fleet) Replace(ctx context.Context, c placement.Cluster) error { return f.add(ctx, c, true) }

func (f *Fleet) add(ctx context.Context, c placement.Cluster, replace bool) error {
	m := &member{mu: make(turn, 1), shared: f.Shared, record: record{store: f.store, key: prefix + c.Name}}
	stored, err := m.read(ctx)
	found := err == nil
	if err != nil && !errors.Is(err, backend.ErrNotFound) {
		return err
	}
	m.made = stored.Made
	if found && replace {
		m.made++
	}
	c.UID = fmt.Sprintf("%s-%d", c.Name, m.made)
	f.mu.Lock()
	m.cluster = f.Fleet.Add(c)
	f.members[c.Name] = m
	f.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if found && !replace {
		return m.cluster.Restore(stored.State)
	}
	if err := m.save(ctx); !f.Shared || !errors.Is(err, backend.ErrConflict) {
		return err
	}
	return m.reload(ctx) // another process has added it
}

// read reads the record.
func (m *member) read(ctx context.Context) (r memberRecord, err error) {
	if err := m.record.load(ctx); err != nil {
		return r, err
	}
	return r, m.record.decode(&r, func() int { return r.Format })
}

func (m *member) save(ctx context.Context) error {
	state, err := m.cluster.State()
	if err != nil {
		return err
	}
	value, err := json.Marshal(memberRecord{format, m.made, state})
	if err != nil {
		return err
	}
	return m.record.save(ctx, value)
}

// reload sets the cluster to its stored state.
func (m *member) reload(ctx context.Context) error {
	stored, err := m.read(ctx)
	if err == nil && stored.Made != m.made {
		err = fmt.Errorf("%w: the cluster was made again", backend.ErrNotFound)
	}
	if err == nil {
		err = m.cluster.Restore(stored.State)
	}
	m.record.unsure = m.record.unsure || err != nil
	return err
}

// do makes a call of the cluster. If the store failed the previous change, do first sets the
// cluster to its stored state. After the call it stores the changes. If another process changed
// the cluster in between, do repeats the call.
func (m *member) do(ctx context.Context, changes bool, call func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		if m.shared || m.record.unsure {
			if err := m.reload(ctx); err != nil {
				return err
			}
		}
		if err := call(); err != nil || !changes {
			return err
		}
		if err := m.save(ctx); !m.shared || !errors.Is(err, backend.ErrConflict) {
			return err
		}
	}
}

// Change calls change with a cluster, which may change it by its methods, and stores the changes
// if it returns nil. A cluster that is not in the fleet is ErrNotFound.
func (f *Fleet) Change(ctx context.Context, name string, change func(*memory.Cluster) error) error {
	f.mu.Lock()
	m := f.members[name]
	f.mu.Unlock()
	if m == nil {
		return &backend.Error{Op: "change", Object: name, Err: backend.ErrNotFound}
	}
	return m.do(ctx, true, func() error { return change(m.cluster) })
}

// Dial returns a connection to a cluster of the fleet.
func (f *Fleet) Dial(ctx context.Context, c placement.Cluster) (backend.Conn, error) {
	f.mu.Lock()
	m := f.members[c.Name]
	inner, err := f.Fleet.Dial(ctx, c)
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return &conn{inner.(simulated), m}, nil
}

// simulated is the interface of package memory's connections.
type simulated interface {
	backend.ConnWatcher
	backend.ConnDryRunner
	backend.ConnLister
	backend.ConnFencer
}

// conn stores the changes made through it.
type conn struct {
	simulated
	m *member
}

func (c *conn) Get(ctx context.Context, id snapshot.ID) (obj *unstructured.Unstructured, err error) {
	err = c.m.do(ctx, false, func() error { obj, err = c.simulated.Get(ctx, id); return err })
	return obj, err
}

func (c *conn) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (got *unstructured.Unstructured, err error) {
	err = c.m.do(ctx, true, func() error { got, err = c.simulated.Apply(ctx, obj, o); return err })
	return got, err
}

func (c *conn) DryRun(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (got *unstructured.Unstructured, err error) {
	err = c.m.do(ctx, false, func() error { got, err = c.simulated.DryRun(ctx, obj, o); return err })
	return got, err
}

func (c *conn) List(ctx context.Context, namespace string) iter.Seq2[*unstructured.Unstructured, error] {
	return func(yield func(*unstructured.Unstructured, error) bool) {
		var all []*unstructured.Unstructured
		err := c.m.do(ctx, false, func() error {
			for obj, err := range c.simulated.List(ctx, namespace) {
				if err != nil {
					return err
				}
				all = append(all, obj)
			}
			return nil
		})
		for _, obj := range all {
			if err == nil && !yield(obj, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

func (c *conn) Delete(ctx context.Context, id snapshot.ID, o backend.DeleteOptions) error {
	return c.m.do(ctx, true, func() error { return c.simulated.Delete(ctx, id, o) })
}
