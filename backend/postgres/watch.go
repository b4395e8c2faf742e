package postgres

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/slipway-dev/slipway/backend"
)

// Watch yields what changes under prefix. See [backend.Watcher]. A consumer that is 65,536 different keys behind is ended with
// an error; so are all when another server takes over, and when this process was cut off for longer than deletions are kept.
func (s *Store) Watch(ctx context.Context, prefix string) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		f := s.poll.enter()
		defer s.poll.leave()
		for c, err := range f.Follow(ctx, prefix, func(join func()) ([]backend.Change, error) { return s.beginWatch(ctx, prefix, join) }) {
			if !yield(c, err) {
				return
			}
		}
	}
}

// beginWatch returns what exists under prefix. No poll goes on meanwhile: what the next ones announce is what is returned or
// later.
func (s *Store) beginWatch(ctx context.Context, prefix string, join func()) ([]backend.Change, error) {
	var existing []backend.Change
	err := s.with(ctx, func(c *pgxpool.Conn) error {
		// The turn is taken behind the connection: a pool that is used up does not keep other watches from their polls.
		if err := s.poll.take(ctx); err != nil {
			return err
		}
		defer s.poll.give()
		ctx, cancel := context.WithTimeout(ctx, pollTimeout)
		defer cancel()
		from, to := between(prefix)
		found, now, err := s.exists(ctx, c.Conn(), from, to)
		if err != nil {
			return err
		}
		join()
		s.poll.begin(now)
		existing = found
		return nil
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, failed("watch", prefix, err)
	}
	return existing, nil
}

// exists returns what exists in a range of keys, and the position of that reading.
func (s *Store) exists(ctx context.Context, c *pgx.Conn, from, to string) (existing []backend.Change, now position, err error) {
	rows, err := c.Query(ctx, s.sql.begin(s.noTimeline.Load()), from, to)
	if err != nil {
		return nil, now, err
	}
	var text, timeline string
	var key *string
	var seq, nonce *int64
	_, err = pgx.ForEachRow(rows, []any{&now.incarnation, &text, &timeline, &now.newest, &key, &seq, &nonce}, func() error {
		if key != nil {
			existing = append(existing, backend.Change{Key: *key, Revision: revision{*seq, *nonce}.public()})
		}
		return nil
	})
	if err != nil {
		return nil, now, err
	}
	if now.snapshot, err = parseSnapshot(text); err != nil {
		return nil, now, err
	}
	now.settle()
	now.timeline, err = parseTimeline(timeline)
	return existing, now, err
}

// snapshot says which transactions had ended at a moment: those below xmax that are not in running. xmin is the lowest that
// had not.
type snapshot struct {
	xmin, xmax uint64
	running    []uint64
}

// parseSnapshot returns what PostgreSQL writes as xmin:xmax:running,running.
func parseSnapshot(text string) (snapshot, error) {
	parts := strings.SplitN(text, ":", 3)
	if len(parts) < 3 {
		return snapshot{}, errSnapshot
	}
	xmin, minErr := strconv.ParseUint(parts[0], 10, 64)
	xmax, maxErr := strconv.ParseUint(parts[1], 10, 64)
	if minErr != nil || maxErr != nil {
		return snapshot{}, errSnapshot
	}
	s := snapshot{xmin: xmin, xmax: xmax}
	for digits := range strings.SplitSeq(parts[2], ",") {
		if digits == "" {
			continue
		}
		xid, err := strconv.ParseUint(digits, 10, 64)
		if err != nil {
			return snapshot{}, errSnapshot
		}
		s.running = append(s.running, xid)
	}
	return s, nil
}

func (s snapshot) String() string {
	var running []string
	for _, xid := range s.running {
		running = append(running, strconv.FormatUint(xid, 10))
	}
	return strconv.FormatUint(s.xmin, 10) + ":" + strconv.FormatUint(s.xmax, 10) + ":" + strings.Join(running, ",")
}

// cut returns the snapshot without what is above an xid: the transactions there count as running.
//
// No row has a higher xid than newest, so that nothing is announced twice. But an xid that was given out and left no trace on
// the disk, above all that of a transaction which was rolled back, is given out again after a crash: it must not count as ended.
func (s snapshot) cut(newest uint64) snapshot {
	if s.xmax <= newest+1 {
		return s
	}
	running := slices.DeleteFunc(slices.Clone(s.running), func(xid uint64) bool { return xid > newest })
	return snapshot{xmin: min(s.xmin, newest+1), xmax: newest + 1, running: running}
}

// position is up to where changes were announced: those that are visible in snapshot.
type position struct {
	snapshot    snapshot
	ended       uint64 // every transaction below had ended
	newest      uint64 // the highest xid of a row that was visible
	incarnation string
	timeline    uint32
}

// settle makes the position one that outlives a crash of the server.
func (p *position) settle() {
	p.ended = p.snapshot.xmin
	p.snapshot = p.snapshot.cut(p.newest)
}
