package memory

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
)

// Member is a cluster as the inventory reports it.
type Member = placement.Cluster

// Fleet is an inventory of clusters in memory and the way to reach them. Each
// member can be slowed down, cut off or made to hang, for as long as it is in
// the fleet and for connections that were opened before as well.
type Fleet struct {
	shared namespaces

	mu      sync.Mutex
	names   []string // ascending
	members map[string]*member
	made    map[string]int      // how many clusters had the name
	kept    map[string]struct{} // names of clusters that are kept, or were
	watches map[chan struct{}]struct{}
}

var (
	_ backend.InventoryWatcher = (*Fleet)(nil)
	_ backend.Dialer           = (*Fleet)(nil)
)

// member is a cluster in the fleet. What info refers to is never changed, only
// replaced.
type member struct {
	info    placement.Cluster
	cluster *Cluster
	faults  faults
}

// NewFleet returns a fleet of these clusters. Of two with the same name the
// last one counts.
func NewFleet(clusters ...Member) *Fleet {
	f := &Fleet{
		shared:  newNamespaces(),
		members: make(map[string]*member, len(clusters)),
		made:    map[string]int{},
		kept:    map[string]struct{}{},
		watches: map[chan struct{}]struct{}{},
	}
	for _, c := range clusters {
		f.Add(c)
	}
	return f
}

// Add adds an empty cluster to the fleet and returns it. A cluster of that
// name which is there already is replaced, as one that was made again. Without
// a UID it gets [Cluster.UID], which no earlier cluster of that name had.
func (f *Fleet) Add(c placement.Cluster) *Cluster {
	f.mu.Lock()
	defer f.mu.Unlock()
	cluster := newCluster(c.Name, f.made[c.Name], f.shared)
	f.made[c.Name]++
	if c.UID == "" {
		c.UID = cluster.UID()
	}
	c = c.Clone()
	f.members[c.Name] = &member{info: c, cluster: cluster}
	if i, found := slices.BinarySearch(f.names, c.Name); !found {
		f.names = slices.Insert(f.names, i, c.Name)
	}
	f.announce()
	return cluster
}

// Remove takes a cluster out of the inventory, if it is there. It goes on to
// exist: open connections keep working.
func (f *Fleet) Remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.members[name] == nil {
		return
	}
	delete(f.members, name)
	if i, found := slices.BinarySearch(f.names, name); found {
		f.names = slices.Delete(f.names, i, i+1)
	}
	f.announce()
}

// Relabel gives a cluster other labels, if it is there.
func (f *Fleet) Relabel(name string, labels map[string]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.members[name]; m != nil {
		m.info.Labels = maps.Clone(labels)
		f.announce()
	}
}

// Report changes what the inventory says of a cluster, if it is there: its
// properties and taints, that it is leaving or not healthy, or its labels. The
// name and the UID stay. change is called once, with a copy, and does not call
// the fleet.
func (f *Fleet) Report(name string, change func(*placement.Cluster)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members[name]
	if m == nil {
		return
	}
	c := m.info.Clone()
	change(&c)
	c.Name, c.UID = m.info.Name, m.info.UID
	m.info = c.Clone()
	f.announce()
}

// Cluster returns the cluster of that name, nil if there is none.
func (f *Fleet) Cluster(name string) *Cluster {
	if m := f.member(name); m != nil {
		return m.cluster
	}
	return nil
}

// Len returns the number of clusters.
func (f *Fleet) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.names)
}

func (f *Fleet) member(name string) *member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.members[name]
}

// Clusters yields the clusters that are in the fleet when it begins, by name.
// What it yields is the caller's.
func (f *Fleet) Clusters(ctx context.Context) iter.Seq2[placement.Cluster, error] {
	return func(yield func(placement.Cluster, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(placement.Cluster{}, failed("list", "clusters", err))
			return
		}
		for _, c := range f.snapshot() {
			if !yield(c.Clone(), nil) {
				return
			}
		}
	}
}

func (f *Fleet) snapshot() []placement.Cluster {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]placement.Cluster, len(f.names))
	for i, name := range f.names {
		out[i] = f.members[name].info
	}
	return out
}

// WatchClusters reports that the inventory changed. See
// [backend.InventoryWatcher].
func (f *Fleet) WatchClusters(ctx context.Context) iter.Seq2[struct{}, error] {
	return func(yield func(struct{}, error) bool) {
		signal := make(chan struct{}, 1)
		wake(signal)
		f.follow(signal)
		defer f.unfollow(signal)
		for {
			err := await(ctx, signal)
			if !yield(struct{}{}, err) || err != nil {
				return
			}
		}
	}
}

func (f *Fleet) follow(signal chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watches[signal] = struct{}{}
}

func (f *Fleet) unfollow(signal chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.watches, signal)
}

// announce signals the watches that the inventory changed. The lock is held.
func (f *Fleet) announce() {
	for w := range f.watches {
		wake(w)
	}
}

// Dial returns a connection to the cluster, which is a [backend.ConnWatcher].
// A cluster that is not in the fleet, or not with that UID, is ErrNotFound.
func (f *Fleet) Dial(ctx context.Context, c placement.Cluster) (backend.Conn, error) {
	m := f.member(c.Name)
	switch {
	case m == nil:
		return nil, failed("dial", c.Name, backend.ErrNotFound)
	case c.UID != "" && c.UID != m.info.UID:
		return nil, failed("dial", c.Name, fmt.Errorf("%w: the cluster of that name has uid %s, not %s", backend.ErrNotFound, m.info.UID, c.UID))
	}
	if err := m.faults.pass(ctx); err != nil {
		return nil, failed("dial", c.Name, err)
	}
	return &memberConn{name: c.Name, faults: &m.faults, conn: conn{cluster: m.cluster}}, nil
}
