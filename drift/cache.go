package drift

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/maphash"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/drift/internal/value"
	"github.com/slipway-dev/slipway/drift/schema"
)

const (
	// defaultEntries is how many verdicts a Cache keeps where nothing else is said.
	defaultEntries = 1 << 20
	// maxCachedBytes is about how many bytes of reports a Cache keeps.
	maxCachedBytes = 64 << 20
	shards         = 16
	maxCachedTypes = 1024
)

// Cache holds the reports of comparisons, so that an object of a member is neither decoded nor compared again
// while it (by its uid and resourceVersion), the hub's object, the options, the schema and the baseline are
// unchanged. Objects without uid or resourceVersion, and errors, are not cached.
//
// An entry of an object without differences takes less than 64 bytes. The least recently used are evicted
// when there are Entries of them, or more than 64 MiB of reports. The zero value is ready. A Cache may be
// used concurrently.
//
// Reports that come from a Cache share what they point to. They must not be
// changed.
type Cache struct {
	// Entries is how many verdicts are kept at most; 0 is 1,048,576. Twice as many
	// as there are objects on all members is enough for all to stay. It must not
	// be changed after the first use.
	Entries int

	seeded sync.Once
	seeds  [2]maphash.Seed
	shards [shards]shard
	mu     sync.Mutex
	types  map[*schema.Type]digest
}

// verdictKey is a hash of everything that a verdict depends on, under two seeds that are secret to the cache,
// so that no member can forge a resourceVersion with the key of another verdict.
type verdictKey [2]uint64

// digest is a prefix of a SHA-256, long enough to resist collisions.
type digest [16]byte

// Compare is m.Compare(member, b), or what that came to before. The name of the
// cluster that the member's object is from keeps members apart: what one says of
// a uid is not believed of another.
func (c *Cache) Compare(cluster string, m *Manifest, member *unstructured.Unstructured, b *Baseline) (Report, error) {
	uid, version := versionOf(member)
	if uid == "" || version == "" {
		return m.Compare(member, b)
	}
	key := c.key(cluster, m, uid, version, b)
	s := &c.shards[key[0]%shards]
	if r, ok := s.get(key, m, c.limit()); ok {
		return r, nil
	}
	r, err := m.Compare(member, b)
	if err == nil {
		s.put(key, r, c.limit())
	}
	return r, err
}

// Lookup returns the cached report of the object of a cluster with this uid and resourceVersion, and false if
// there is none. It does not need the object, so an unchanged one is neither read nor decoded.
func (c *Cache) Lookup(cluster string, m *Manifest, uid, resourceVersion string, b *Baseline) (Report, bool) {
	if uid == "" || resourceVersion == "" {
		return Report{}, false
	}
	key := c.key(cluster, m, uid, resourceVersion, b)
	return c.shards[key[0]%shards].get(key, m, c.limit())
}

// Len returns how many verdicts are remembered.
func (c *Cache) Len() int {
	n := 0
	for i := range c.shards {
		n += c.shards[i].len()
	}
	return n
}

// limit is how many verdicts a generation of a shard has at most.
func (c *Cache) limit() int {
	if c.Entries <= 0 {
		return defaultEntries / (2 * shards)
	}
	return max(c.Entries/(2*shards), 1)
}

// versionOf returns what reports whether an object of a member has changed.
func versionOf(member *unstructured.Unstructured) (uid, version string) {
	if member == nil {
		return "", ""
	}
	meta, _ := member.Object["metadata"].(map[string]any)
	uid, _ = meta["uid"].(string)
	version, _ = meta["resourceVersion"].(string)
	return uid, version
}

// key returns the key of all that a verdict depends on.
func (c *Cache) key(cluster string, m *Manifest, uid, version string, b *Baseline) verdictKey {
	c.seeded.Do(func() { c.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()} })
	id := c.identity(m)
	var room [192]byte
	text := append(room[:0], id[:]...)
	if b.Len() > 0 {
		text = append(text, b.sum[:]...)
	}
	text = binary.AppendUvarint(text, uint64(len(cluster)))
	text = append(text, cluster...)
	text = binary.AppendUvarint(text, uint64(len(uid)))
	text = append(append(text, uid...), version...)
	return verdictKey{maphash.Bytes(c.seeds[0], text), maphash.Bytes(c.seeds[1], text)}
}

func digestOf(text []byte) digest {
	sum := sha256.Sum256(text)
	return digest(sum[:16])
}

// identity returns the digest of a manifest with its options and schema.
func (c *Cache) identity(m *Manifest) digest {
	m.identified.Do(func() {
		typ := c.typeDigest(m.tree.Type)
		text := append(append([]byte(nil), m.options[:]...), typ[:]...)
		m.identity = digestOf(value.AppendCanonical(text, m.tree.Hub))
	})
	return m.identity
}

// typeDigest remembers the digests of types, which are made once for all
// manifests of a kind. A type does not change, and is not collected while it is here.
func (c *Cache) typeDigest(t *schema.Type) digest {
	if t == nil {
		return digest{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if d, ok := c.types[t]; ok {
		return d
	}
	if len(c.types) >= maxCachedTypes || c.types == nil {
		c.types = make(map[*schema.Type]digest)
	}
	var w typeWriter
	w.typ(t)
	c.types[t] = digestOf(w.out)
	return c.types[t]
}

// shard is a part of a cache with a lock of its own.
type shard struct {
	mu sync.Mutex
	// old is what young was before it was full. What is asked for moves back.
	young, old generation
}

// generation maps keys to the generation of an object without differences, or to
// the complement of an index of reports.
type generation struct {
	verdicts map[verdictKey]int64
	reports  []Report
	bytes    int
}

func (s *shard) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.young.verdicts) + len(s.old.verdicts)
}

func (s *shard) get(key verdictKey, m *Manifest, limit int) (Report, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, ok := s.young.verdicts[key]; ok {
		return s.young.report(v, m), true
	}
	v, ok := s.old.verdicts[key]
	if !ok {
		return Report{}, false
	}
	r := s.old.report(v, m)
	delete(s.old.verdicts, key)
	s.add(key, r, limit)
	return r, true
}

func (s *shard) put(key verdictKey, r Report, limit int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(key, r, limit)
}

// add makes room by forgetting what was not asked for since there was none before.
func (s *shard) add(key verdictKey, r Report, limit int) {
	if len(s.young.verdicts) >= limit || s.young.bytes > maxCachedBytes/(2*shards) {
		s.old, s.young = s.young, generation{}
	}
	s.young.put(key, r)
}

func (g *generation) put(key verdictKey, r Report) {
	if g.verdicts == nil {
		g.verdicts = make(map[verdictKey]int64)
	}
	if clean(&r) {
		g.verdicts[key] = r.Generation
		return
	}
	g.verdicts[key] = ^int64(len(g.reports))
	g.reports = append(g.reports, r)
	g.bytes += sizeOf(&r)
}

// report returns the report of a verdict.
func (g *generation) report(v int64, m *Manifest) Report {
	if v < 0 {
		return g.reports[^v]
	}
	return m.clean(v)
}

// clean reports whether a report says nothing but that there is an object.
func clean(r *Report) bool {
	return r.Total == 0 && r.State == Present && len(r.Warnings) == 0 && r.Generation >= 0
}

// sizeOf is about how many bytes a report takes.
func sizeOf(r *Report) int {
	n := 256
	for i := range r.Differences {
		d := &r.Differences[i]
		n += 256 + len(d.Path) + len(d.HubPath) + len(d.KeyPath) + len(d.Hub) + len(d.Member) + len(d.Note)
	}
	for _, w := range r.Warnings {
		n += 16 + len(w)
	}
	return n
}
