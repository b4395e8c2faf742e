package memory

import (
	"slices"
	"sort"
	"strings"

	"github.com/slipway-dev/slipway/backend"
)

// entry is one write of a key. It is never changed, so it can be read without
// the store's lock.
type entry struct {
	key      string
	value    []byte
	revision backend.Revision
}

// chunkSize bounds what an insertion moves: 256 pointers.
const chunkSize = 256

// index holds entries ascending by key, in chunks that are not empty, so that
// neither an insertion nor a prefix touches more than a small part of it.
type index struct {
	chunks [][]*entry
}

// find returns where key is, or where it would be inserted.
func (x *index) find(key string) (chunk, i int, found bool) {
	chunk = sort.Search(len(x.chunks), func(c int) bool { return x.chunks[c][0].key > key }) - 1
	if chunk < 0 {
		return 0, 0, false
	}
	i, found = slices.BinarySearchFunc(x.chunks[chunk], key, func(e *entry, key string) int {
		return strings.Compare(e.key, key)
	})
	return chunk, i, found
}

func (x *index) get(key string) *entry {
	chunk, i, found := x.find(key)
	if !found {
		return nil
	}
	return x.chunks[chunk][i]
}

func (x *index) set(e *entry) {
	if len(x.chunks) == 0 {
		x.chunks = [][]*entry{{e}}
		return
	}
	chunk, i, found := x.find(e.key)
	if found {
		x.chunks[chunk][i] = e
		return
	}
	x.chunks[chunk] = slices.Insert(x.chunks[chunk], i, e)
	if len(x.chunks[chunk]) > chunkSize {
		x.split(chunk, i)
	}
}

// split divides a chunk: in the middle, or before the end where keys come in
// ascending order, so that full chunks stay behind.
func (x *index) split(chunk, i int) {
	full := x.chunks[chunk]
	at := len(full) / 2
	if i == len(full)-1 {
		at = i
	}
	right := slices.Clone(full[at:])
	clear(full[at:])
	x.chunks[chunk] = full[:at]
	x.chunks = slices.Insert(x.chunks, chunk+1, right)
}

func (x *index) remove(key string) {
	chunk, i, found := x.find(key)
	if !found {
		return
	}
	x.chunks[chunk] = slices.Delete(x.chunks[chunk], i, i+1)
	if len(x.chunks[chunk]) == 0 {
		x.chunks = slices.Delete(x.chunks, chunk, chunk+1)
	}
}

// page appends to buf up to limit entries under prefix whose key is after
// the given one, or is it when inclusive.
func (x *index) page(buf []*entry, prefix, from string, inclusive bool, limit int) []*entry {
	chunk, i, found := x.find(from)
	if found && !inclusive {
		i++
	}
	for ; chunk < len(x.chunks); chunk, i = chunk+1, 0 {
		for _, e := range x.chunks[chunk][i:] {
			if len(buf) == limit || !strings.HasPrefix(e.key, prefix) {
				return buf
			}
			buf = append(buf, e)
		}
	}
	return buf
}
