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

// Watch yields the changes under prefix. See [backend.Watcher]. If a consumer is 65,536 different
// keys behind, its watch ends with an error. All watches end if another server takes over, and if
// this process was cut off for longer than deletions are kept.
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

// beginWatch returns the existing records under prefix. Polls are paused, so later announcements
// are never older than this result.
func (s *Store) beginWatch(ctx context.Context, prefix string, join func()) ([]backend.Change, error) {
	var existing []backend.Change
	err := s.with(ctx, func(c *pgxpool.Conn) error {
		// The turn is taken after the connection, so that an exhausted pool does not block the polls of
		// other watches.
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

// exists returns the existing records in a range of keys, and the position of that reading.
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

// snapshot has the transactions that had ended at a moment: those below xmax that are not in
// running. xmin is the lowest running one.
type snapshot struct {
	xmin, xmax uint64
	running    []uint64
}

// parseSnapshot parses PostgreSQL's form xmin:xmax:running,running.
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

// cut returns the snapshot with all transactions above an xid counted as running.
//
// No row has a higher xid than newest, so nothing is announced twice. But after a crash the
// server reissues an xid that left no trace on the disk, for example the xid of a transaction that
// was rolled back. Such an xid must not count as ended.
func (s snapshot) cut(newest uint64) snapshot {
	if s.xmax <= newest+1 {
		return s
	}
	running := slices.DeleteFunc(slices.Clone(s.running), func(xid uint64) bool { return xid > newest })
	return snapshot{xmin: min(s.xmin, newest+1), xmax: newest + 1, running: running}
}

// position is the point up to which changes were announced: all that are visible in snapshot.
type position struct {
	snapshot    snapshot
	ended       uint64 // every lower transaction had ended
	newest      uint64 // the highest xid of a visible row
	incarnation string
	timeline    uint32
}

// settle makes the position valid after a crash of the server.
func (p *position) settle() {
	p.ended = p.snapshot.xmin
	p.snapshot = p.snapshot.cut(p.newest)
}
