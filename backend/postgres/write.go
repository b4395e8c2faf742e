package postgres

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/slipway-dev/slipway/backend"
)

// Put writes value if the revision of key is prev, and returns after the commit. See
// [backend.Store].
func (s *Store) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	if err := cmp.Or(s.writable(), admit(ctx, key, value)); err != nil {
		return "", failed("put", key, err)
	}
	w := newSingle(key, value, prev)
	if err := s.put(newPut(ctx, w)); err != nil {
		return "", failed("put", key, err)
	}
	return w.ack.public(), nil
}

// present returns a value that is not NULL.
func present(value []byte) []byte {
	if value == nil {
		return []byte{}
	}
	return value
}

// commit calls f, which runs one statement as its own transaction and returns the session's
// synchronous_commit. It returns nil only if the server has confirmed, after the commit, that it
// is durable; remember records the acknowledged writes.
func (s *Store) commit(ctx context.Context, f func(c *pgxpool.Conn) (mode string, err error), remember func()) error {
	return s.with(ctx, func(c *pgxpool.Conn) error {
		mode, err := f(c)
		if err != nil {
			return err
		}
		s.wrote()
		if mode == "off" {
			return errLostMode
		}
		if err := replicated(c.Conn()); err != nil {
			return err
		}
		// A failover ends the epoch before it compares the remembered writes.
		remember()
		if _, now := s.epochOf(c.Conn()); !now {
			return errOldPrimary
		}
		return nil
	})
}

// Delete removes key if its revision is prev, and returns after the commit. See [backend.Store].
func (s *Store) Delete(ctx context.Context, key string, prev backend.Revision) error {
	_, err := s.WriteAll(ctx, []backend.Write{{Key: key, Prev: prev, Delete: true}})
	return err
}

// WriteAll makes the writes in one transaction: a reader sees all writes that succeeded, or none.
// See [backend.Batcher].
func (s *Store) WriteAll(ctx context.Context, writes []backend.Write) ([]backend.Revision, error) {
	if len(writes) == 0 {
		return nil, ctx.Err()
	}
	if err := cmp.Or(s.writable(), ctx.Err()); err != nil {
		return nil, firstFailed(writes, err)
	}
	if w := &writes[0]; len(writes) == 1 && !w.Delete { // a batch takes the server a third longer
		rev, err := s.Put(ctx, w.Key, w.Value, w.Prev)
		if err != nil {
			return nil, err
		}
		return []backend.Revision{rev}, nil
	}
	b, refused := newBatch(writes)
	if b.len() == 0 {
		return nil, refused
	}
	send := s.put
	if b.len() > groupBatch {
		send = s.alone
	}
	if err := send(newPut(ctx, b)); err != nil {
		return nil, firstFailed(writes, err)
	}
	made := make([]backend.Revision, len(b.seqs), len(writes))
	for i, seq := range b.seqs {
		if !writes[i].Delete {
			made[i] = revision{seq, b.nonces[i]}.public()
		}
	}
	if len(made) == b.len() {
		return made, refused
	}
	op, key, kind := operation(writes[len(made)]), writes[len(made)].Key, backend.ErrConflict
	if op == "delete" && b.absent {
		kind = backend.ErrNotFound
	}
	return made, failed(op, key, kind)
}

// writable returns an error if the store is read-only.
func (s *Store) writable() error {
	if s.o.ReadOnly {
		return errReadOnly
	}
	return nil
}

// firstFailed wraps the common reason why no write is known to have succeeded.
func firstFailed(writes []backend.Write, err error) error {
	return failed(operation(writes[0]), writes[0].Key, err)
}

// operation returns the name of a write in errors.
func operation(w backend.Write) string {
	if w.Delete {
		return "delete"
	}
	return "put"
}

// single is the write of one record.
type single struct {
	key      string
	value    []byte
	previous revision
	sum      int64
	ack      ack
}

func newSingle(key string, value []byte, prev backend.Revision) *single {
	nonce := newNonce()
	return &single{
		key: key, value: present(value), previous: parseRevision(prev), sum: checksum(key, nonce, value),
		ack: ack{revision: revision{nonce: nonce}},
	}
}

func (w *single) first() string { return w.key }

func (w *single) size() int { return len(w.value) }

func (w *single) keep() { w.value = slices.Clone(w.value) }

func (w *single) statement(s *statements) (string, []any) {
	args := []any{w.key, w.value, w.ack.nonce, w.sum}
	if w.previous.seq == seqNone {
		return s.create, args
	}
	return s.update, append(args, w.previous.seq, w.previous.nonce)
}

func (w *single) read(row pgx.Row) (mode string, err error) {
	err = row.Scan(&w.ack.seq, &w.ack.xid, &mode)
	if errors.Is(err, pgx.ErrNoRows) {
		err = backend.ErrConflict
	}
	return mode, err
}

func (w *single) made(yield func(key string, a ack)) { yield(w.key, w.ack) }

// batch has the arguments of the function write, and its results. See functions.sql.
type batch struct {
	keys              []string
	values            [][]byte
	sums, nonces      []int64
	prevs, prevNonces []int64
	firsts            []int32

	// seqs are the numbers of the successful writes, absent reports that the key of the next write
	// does not exist.
	seqs   []int64
	absent bool
	xid    uint64
}

func (b *batch) len() int { return len(b.keys) }

func (b *batch) first() string { return b.keys[b.firsts[0]-1] }

func (b *batch) size() (n int) {
	for _, value := range b.values {
		n += len(value)
	}
	return n
}

func (b *batch) keep() {
	for i, value := range b.values {
		b.values[i] = slices.Clone(value) // a deletion's value stays nil
	}
}

func (b *batch) statement(s *statements) (string, []any) {
	return s.write, []any{b.keys, b.values, b.sums, b.nonces, b.prevs, b.prevNonces, b.firsts}
}

func (b *batch) read(row pgx.Row) (mode string, err error) {
	err = row.Scan(&b.seqs, &b.absent, &b.xid, &mode)
	return mode, err
}

func (b *batch) made(yield func(key string, a ack)) {
	for i, seq := range b.seqs {
		yield(b.keys[i], ack{revision: revision{seq, b.nonces[i]}, xid: b.xid, deleted: b.values[i] == nil})
	}
}

// newBatch returns a batch of the writes before the first write that must fail whatever the
// database contains, and the error of that write.
func newBatch(writes []backend.Write) (*batch, error) {
	b := &batch{}
	before := map[string]backend.Write{} // the last write of a key
	for _, w := range writes {
		op := operation(w)
		if err := valid(w); err != nil {
			return b.sorted(), failed(op, w.Key, err)
		}
		at := parseRevision(w.Prev)
		if w.Delete && at.seq == seqNone {
			at.seq = seqInvalid // a deletion requires a revision
		}
		if last, again := before[w.Key]; again {
			// The revisions of a batch are unknown before it runs: a key can be written twice only if the
			// batch deletes and then creates it.
			switch {
			case last.Delete && w.Delete:
				return b.sorted(), failed(op, w.Key, backend.ErrNotFound)
			case !last.Delete || w.Prev != "":
				return b.sorted(), failed(op, w.Key, backend.ErrConflict)
			}
			at.seq = seqSecond
		} else {
			b.firsts = append(b.firsts, int32(b.len()+1)) //nolint:gosec // a batch is far smaller than 1<<31
		}
		before[w.Key] = w
		b.add(w, at)
	}
	return b.sorted(), nil
}

// valid validates the arguments of a write.
func valid(w backend.Write) error {
	if err := backend.ValidateKey(w.Key); err != nil || w.Delete {
		return err
	}
	return backend.ValidateValue(w.Value)
}

func (b *batch) add(w backend.Write, at revision) {
	nonce, value, sum := newNonce(), []byte(nil), int64(0)
	if !w.Delete {
		value, sum = present(w.Value), checksum(w.Key, nonce, w.Value)
	}
	b.keys, b.values = append(b.keys, w.Key), append(b.values, value)
	b.sums, b.nonces = append(b.sums, sum), append(b.nonces, nonce)
	b.prevs, b.prevNonces = append(b.prevs, at.seq), append(b.prevNonces, at.nonce)
}

// sorted sorts the first writes of keys by key.
func (b *batch) sorted() *batch {
	slices.SortFunc(b.firsts, func(i, j int32) int { return cmp.Compare(b.keys[i-1], b.keys[j-1]) })
	return b
}
