package postgres

import (
	"container/list"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
)

// ackedMost is the maximum number of keys whose last acknowledged write a store remembers.
const ackedMost = 1024

// ack is the acknowledged last write of a key.
type ack struct {
	revision

	xid     uint64
	deleted bool
}

// acknowledged has the last acknowledged writes of this store, and the keys that are known to
// have lost a write.
type acknowledged struct {
	mu     sync.Mutex
	last   map[string]*list.Element
	recent list.List // of ackOf, the latest first
	lost   map[string]struct{}
}

type ackOf struct {
	key string
	ack
}

// add remembers an acknowledged write, unless it knows a later write of the key.
func (a *acknowledged) add(key string, made ack) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last == nil {
		a.last = map[string]*list.Element{}
	}
	if e, ok := a.last[key]; ok {
		if e.Value.(ackOf).seq > made.seq {
			return
		}
		a.recent.Remove(e)
	}
	a.last[key] = a.recent.PushFront(ackOf{key, made})
	if a.recent.Len() > ackedMost {
		delete(a.last, a.recent.Remove(a.recent.Back()).(ackOf).key)
	}
}

// all returns the remembered writes.
func (a *acknowledged) all() map[string]ack {
	a.mu.Lock()
	defer a.mu.Unlock()
	acks := make(map[string]ack, len(a.last))
	for key, e := range a.last {
		acks[key] = e.Value.(ackOf).ack
	}
	return acks
}

// settle forgets the writes that were compared with a server after a failover, and notes the lost
// keys.
func (a *acknowledged) settle(compared map[string]ack, lost []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, made := range compared {
		if e, ok := a.last[key]; ok && e.Value.(ackOf).ack == made {
			a.recent.Remove(e)
			delete(a.last, key)
		}
	}
	if a.lost == nil {
		a.lost = map[string]struct{}{}
	}
	for _, key := range lost {
		a.lost[key] = struct{}{}
	}
}

// Lost returns the keys, ascending, that are known to have lost an acknowledged write of this
// Store, because a server without that write took over. The documentation of the package describes
// which losses are detected.
func (s *Store) Lost() []string {
	s.acked.mu.Lock()
	defer s.acked.mu.Unlock()
	return slices.Sorted(maps.Keys(s.acked.lost))
}

// kept is the state of a key on a server after a failover.
type kept struct {
	revision

	exists   bool
	previous int64
	// purged is the horizon below which the rows of deleted keys were removed.
	purged uint64
}

// loses reports whether a server in this state cannot have had the acknowledged write.
//
// On a server that had it, each later write of the key has a higher number, and the first of them
// follows the acknowledged one: previous is its number or, after several writes, a higher one. A
// row is removed only after a deletion whose xid is below purged; a deletion after the
// acknowledged write began after its commit, so that its xid is higher.
func (k kept) loses(made ack) bool {
	switch {
	case !k.exists:
		return !made.deleted && k.purged <= made.xid
	case k.seq == made.seq:
		return k.nonce != made.nonce
	}
	return k.seq < made.seq || k.previous < made.seq
}

// findLost compares the acknowledged writes with the state of a server after a failover.
func (s *Store) findLost(ctx context.Context, c *pgx.Conn, timeline uint32) error {
	s.epoch.Add(1)
	acks := s.acked.all()
	keys := slices.Sorted(maps.Keys(acks))
	rows, err := c.Query(ctx, s.sql.acknowledged, keys)
	if err != nil {
		return err
	}
	var lost []string
	var key string
	var k kept
	var seq, nonce, previous *int64
	_, err = pgx.ForEachRow(rows, []any{&key, &k.purged, &seq, &nonce, &previous}, func() error {
		if k.exists = seq != nil; k.exists {
			k.revision, k.previous = revision{*seq, *nonce}, *previous
		}
		if k.loses(acks[key]) {
			lost = append(lost, key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.acked.settle(acks, lost)
	if len(lost) > 0 {
		s.o.Logger.ErrorContext(ctx, "a server took over that has lost acknowledged writes", slog.String("schema", s.o.Schema),
			slog.Uint64("timeline", uint64(timeline)), slog.Any("keys", lost))
		return nil
	}
	s.o.Logger.InfoContext(ctx, "a server took over", slog.String("schema", s.o.Schema), slog.Uint64("timeline", uint64(timeline)),
		slog.Int("compared", len(acks)))
	return nil
}
