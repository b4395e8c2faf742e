package bolt

import (
	"bytes"
	"iter"
	"maps"
	"slices"
	"strings"

	"go.etcd.io/bbolt"
)

// past holds, under each key that a commit writes, the record that was stored before; nil if
// there was none.
type past map[string][]byte

// records yields the records under prefix that are not before from, ascending. A record in past
// replaces the record of the bucket.
func (p past) records(b *bbolt.Bucket, prefix, from string) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		old := p.keys(prefix, from)
		c := b.Cursor()
		for k, v := c.Seek([]byte(from)); k != nil && bytes.HasPrefix(k, []byte(prefix)); k, v = c.Next() {
			for ; len(old) > 0 && old[0] <= string(k); old = old[1:] {
				if !p.yield(old[0], yield) {
					return
				}
			}
			if _, ok := p[string(k)]; !ok && !yield(k, v) {
				return
			}
		}
		for _, k := range old {
			if !p.yield(k, yield) {
				return
			}
		}
	}
}

func (p past) yield(key string, yield func(k, v []byte) bool) bool {
	return p[key] == nil || yield([]byte(key), p[key])
}

func (p past) keys(prefix, from string) []string {
	if len(p) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(p)), func(k string) bool {
		return k < from || !strings.HasPrefix(k, prefix)
	})
}

// remember keeps the stored record of a key, unless an earlier write of the same commit did.
func (p past) remember(key string, stored []byte) {
	if _, ok := p[key]; !ok {
		p[key] = bytes.Clone(stored) // nil stays nil
	}
}
