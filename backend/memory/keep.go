package memory

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/backend"
)

// reserved is how many uids and versions are reserved at once: what a restart
// skips at most, and how many writes share one write of the head.
const reserved = 1024

// Keep makes the clusters that are in the fleet survive their process. What s
// has of a cluster of that name replaces what the cluster holds; where s has
// nothing, it is given what the cluster holds. From then on every write to the
// cluster is in s before it is acknowledged.
//
// A process that ends at any moment, started again with the same clusters and the same store, finds each
// object as the last acknowledged write left it, with its owners, uid, resourceVersion and generation; a
// write that was not acknowledged happened wholly or not at all, and a deletion of a namespace that had begun
// is finished. No uid and no resourceVersion is used again, but some are skipped. The labels of the clusters,
// their clocks, faults, controllers and logs are not stored. A cluster that was made again after its name was
// kept by this fleet does not get the objects of the earlier one: Keep deletes those.
//
// A write that s fails, fails with that error; it may or may not have happened,
// and the next call reads from s what is true, or fails as well. A write that
// conflicts in s means that another process has the cluster: one at a time may.
// The log of [Cluster.Record] has writes that failed in s. An object that is
// larger than a value of s may be is ErrPermanent.
//
// Keep is called before the clusters are used, and again after more were added;
// clusters that are kept already stay as they are. After an error some clusters
// may be kept, and Keep may be called again. The keys are
//
//	member/<cluster>/head                     which cluster it is, its counters
//	member/<cluster>/<incarnation>/<digest>   an object
func (f *Fleet) Keep(ctx context.Context, s backend.Store) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range f.names {
		if err := f.keep(ctx, s, f.members[name], f.made[name]-1); err != nil {
			return failed("keep", name, err)
		}
	}
	return nil
}

// keep keeps the nth cluster of its name.
func (f *Fleet) keep(ctx context.Context, s backend.Store, m *member, nth int) error {
	before := m.cluster.UID()
	_, replaces := f.kept[m.info.Name]
	incarnation, err := m.cluster.keep(ctx, s, nth, replaces)
	if err != nil {
		return err
	}
	f.kept[m.info.Name] = struct{}{}
	f.made[m.info.Name] = max(f.made[m.info.Name], incarnation+1)
	if m.info.UID == before && m.cluster.UID() != before {
		m.info.UID = m.cluster.UID()
		f.announce()
	}
	return nil
}

// persistence is what a cluster that is kept has besides.
type persistence struct {
	prefixStore
	incarnation int
	// uids and versions are up to where these are reserved.
	uids, versions uint64
}

// errMadeAgain is what a cluster answers whose name another one has now.
var errMadeAgain = fmt.Errorf("%w: the cluster was made again", backend.ErrNotFound)

// keep keeps the nth cluster of its name, which may replace the one that is
// stored, and returns which one it is.
func (c *Cluster) keep(ctx context.Context, s backend.Store, nth int, replaces bool) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept != nil {
		return c.kept.incarnation, nil
	}
	prefix := "member/" + c.name + "/"
	if strings.Contains(c.name, "/") {
		return 0, invalid("the name of a cluster that is kept has no slash")
	}
	if err := backend.ValidateKey(prefix + "head"); err != nil {
		return 0, err
	}
	k := &persistence{prefixStore: newPrefixStore(s, prefix), incarnation: nth}
	if err := c.adopt(ctx, k, replaces); err != nil {
		c.setKept(nil)
		return 0, err
	}
	return k.incarnation, nil
}

// setKept makes the server collect what writes touch as long as the cluster is kept.
func (c *Cluster) setKept(k *persistence) {
	c.kept, c.server.tracking, c.server.touched = k, k != nil, nil
}

// adopt takes what is stored, or stores what there is.
func (c *Cluster) adopt(ctx context.Context, k *persistence, replaces bool) error {
	bodies, err := k.load(ctx)
	if err != nil {
		return err
	}
	head, found, err := k.head(bodies)
	if err != nil {
		return err
	}
	if found && !replaces {
		return c.take(ctx, k, head, bodies)
	}
	if found {
		k.incarnation = max(k.incarnation, head.Incarnation+1)
	}
	return c.give(ctx, k)
}

// take makes the cluster what is stored, and sweeps what another one left.
func (c *Cluster) take(ctx context.Context, k *persistence, head headRecord, bodies map[string][]byte) error {
	k.incarnation = head.Incarnation
	if err := k.write(ctx, k.others(nil)); err != nil {
		return err
	}
	before, objects := c.server.uidPrefix, c.server.objects
	c.server.uidPrefix = uidPrefix(c.name, k.incarnation)
	c.setKept(k)
	if err := c.accept(ctx, head, bodies); err != nil {
		c.server.uidPrefix, c.server.objects = before, objects
		return err
	}
	return nil
}

// give stores what the cluster holds. Its head comes after the objects: without
// it they do not count.
func (c *Cluster) give(ctx context.Context, k *persistence) error {
	var changes []change
	for at, o := range c.server.objects {
		if c.server.isPristine(at, o) {
			continue
		}
		value, err := encodeObject(o)
		if err != nil {
			return failed("keep", at.String(), err)
		}
		changes = append(changes, change{k.objectKey(at), value})
	}
	slices.SortFunc(changes, func(a, b change) int { return strings.Compare(a.key, b.key) })
	left := k.others(changes)
	if len(changes) > 0 || k.incarnation > 0 {
		head, err := k.reserve(c)
		if err != nil {
			return err
		}
		changes = append(changes, head)
	}
	if err := k.write(ctx, append(changes, left...)); err != nil {
		return err
	}
	c.server.uidPrefix = uidPrefix(c.name, k.incarnation)
	c.setKept(k)
	return nil
}

func (k *persistence) objectKey(at key) string { return k.objectPrefix() + recordName(at) }

func (k *persistence) objectPrefix() string { return fmt.Sprintf("%s%d/", k.prefix, k.incarnation) }

func (k *persistence) headKey() string { return k.prefix + "head" }

// others returns the deletion of what is stored and is not among the changes,
// or where those are nil, of what no object of this cluster has.
func (k *persistence) others(changes []change) []change {
	mine := map[string]bool{k.headKey(): true}
	for _, c := range changes {
		mine[c.key] = true
	}
	var out []change
	for key := range k.revisions {
		if !mine[key] && (changes != nil || !strings.HasPrefix(key, k.objectPrefix())) {
			out = append(out, change{key: key})
		}
	}
	return out
}

// head returns the head among the bodies, and takes it out.
func (k *persistence) head(bodies map[string][]byte) (h headRecord, found bool, err error) {
	at := k.headKey()
	body, found := bodies[at]
	if !found {
		return h, false, nil
	}
	delete(bodies, at)
	return h, true, decodeStrictly(at, body, &h)
}

// reserve returns the change of the head that reserves more numbers.
func (k *persistence) reserve(c *Cluster) (change, error) {
	k.uids, k.versions = c.server.lastUID+reserved, c.server.lastVersion+reserved
	value, err := seal(headRecord{header{Format: keptFormat}, k.incarnation, k.uids, k.versions})
	return change{k.headKey(), value}, err
}

// fresh makes the cluster what is stored after a write failed. The lock is
// held, here and below.
func (c *Cluster) fresh(ctx context.Context) error {
	if c.kept == nil || !c.kept.stale {
		return nil
	}
	c.server.touched = nil
	bodies, err := c.kept.load(ctx)
	if err != nil {
		return err
	}
	head, found, err := c.kept.head(bodies)
	switch {
	case err != nil:
		return err
	case found && head.Incarnation != c.kept.incarnation:
		return errMadeAgain
	}
	return c.accept(ctx, head, bodies)
}

// accept makes the cluster what the bodies say, and finishes what was begun.
func (c *Cluster) accept(ctx context.Context, head headRecord, bodies map[string][]byte) error {
	objects, err := c.decode(bodies)
	if err != nil {
		return err
	}
	k := c.kept
	c.server.objects, k.uids, k.versions = objects, head.UIDs, head.Versions
	c.server.lastUID, c.server.lastVersion = max(c.server.lastUID, head.UIDs), max(c.server.lastVersion, head.Versions)
	k.stale = false
	c.server.finishDeletions()
	for w := range c.server.watches {
		wake(w.signal)
	}
	return c.save(ctx)
}

// decode returns the objects of the cluster that the bodies are.
func (c *Cluster) decode(bodies map[string][]byte) (map[key]*object, error) {
	objects := map[key]*object{}
	for i, name := range []string{"default", "kube-system"} {
		k, n := namespaceKey(name), uint64(i+1)
		objects[k] = c.server.objects[k] // its tree is shared
		if o := c.server.objects[k]; o == nil || !c.server.isPristine(k, o) {
			objects[k] = &object{live: namespaceTree(name), uid: n, version: n, generation: 1}
		}
	}
	for at, body := range bodies {
		if !strings.HasPrefix(at, c.kept.objectPrefix()) {
			continue
		}
		k, o, err := decodeObject(at, body)
		if err != nil {
			return nil, err
		}
		objects[k] = o
	}
	return objects, nil
}

// save stores what was touched.
func (c *Cluster) save(ctx context.Context) error {
	if c.kept == nil || len(c.server.touched) == 0 {
		return nil
	}
	err := c.saveTouched(ctx)
	c.server.touched = c.server.touched[:0]
	c.kept.stale = c.kept.stale || err != nil
	return err
}

func (c *Cluster) saveTouched(ctx context.Context) error {
	first, rest, err := c.changes()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(first, func(a change) bool { return slices.ContainsFunc(rest, a.sameKey) }) {
		return c.kept.write(ctx, append(first, rest...))
	}
	if err := c.kept.write(ctx, first); err != nil {
		return err
	}
	return c.kept.write(ctx, rest)
}

func (a change) sameKey(b change) bool { return a.key == b.key }

// changes returns what makes the store what the cluster is. First are the
// numbers that are used, then the namespaces: one that goes away with what is
// in it is terminating before that.
func (c *Cluster) changes() (first, rest []change, err error) {
	k := c.kept
	if c.server.lastUID > k.uids || c.server.lastVersion > k.versions {
		head, err := k.reserve(c)
		if err != nil {
			return nil, nil, err
		}
		first = append(first, head)
	}
	var gone []change
	for _, t := range unique(c.server.touched) {
		at, now := k.objectKey(t.key), c.server.objects[t.key]
		if now == nil && t.key.isNamespace() {
			gone = append(gone, change{key: at})
			if now = t.leaving(c.server.seconds()); now == nil || len(c.server.touched) == 1 {
				continue
			}
		}
		step := change{key: at}
		if now != nil {
			if step.value, err = encodeObject(now); err != nil {
				return nil, nil, err
			}
		}
		if t.key.isNamespace() {
			first = append(first, step)
		} else {
			rest = append(rest, step)
		}
	}
	return first, append(rest, gone...), nil
}

// unique returns what was touched, each once.
func unique(touched []touch) []touch {
	seen := make(map[key]bool, len(touched))
	var out []touch
	for _, t := range touched {
		if !seen[t.key] {
			seen[t.key] = true
			out = append(out, t)
		}
	}
	return out
}

// leaving returns the object as it is while it terminates, nil if it is stored
// like that already.
func (t touch) leaving(at int64) *object {
	if t.object.dying {
		return nil
	}
	o := *t.object
	o.dying, o.deleted = true, at
	return &o
}
