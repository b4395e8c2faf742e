package postgres

import (
	"context"
	"errors"
	"iter"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/slipway-dev/slipway/backend"
)

// Get returns the record of key. See [backend.Store].
func (s *Store) Get(ctx context.Context, key string) (backend.Record, error) {
	if err := admit(ctx, key, nil); err != nil {
		return backend.Record{}, failed("get", key, err)
	}
	r := row{key: key}
	err := s.with(ctx, func(c *pgxpool.Conn) error {
		err := c.QueryRow(ctx, s.sql.get, key).Scan(&r.value, &r.revision.seq, &r.revision.nonce, &r.sum)
		if errors.Is(err, pgx.ErrNoRows) {
			return backend.ErrNotFound
		}
		return err
	})
	if err != nil {
		return backend.Record{}, failed("get", key, err)
	}
	rec, err := r.record()
	if err != nil {
		return backend.Record{}, failed("get", key, err)
	}
	return rec, nil
}

// with calls f with a connection.
func (s *Store) with(ctx context.Context, f func(c *pgxpool.Conn) error) error {
	c, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	if err := f(c); err != nil {
		return s.failure(c, err)
	}
	return nil
}

// A page of a list has at most pageRows records. The limit is chosen so that a page likely has
// pageBytes; the first page has firstRows. If large records follow small ones, a page keeps no
// more than twice pageBytes and a record.
const (
	pageRows  = 1000
	pageBytes = 2 << 20
	firstRows = 64
)

// List yields the records under prefix. See [backend.Store]. It holds no connection while it
// yields.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[backend.Record, error] {
	return func(yield func(backend.Record, error) bool) {
		from, to := between(prefix)
		for limit := firstRows; ; {
			page, more, err := s.page(ctx, from, to, limit)
			for _, rec := range page {
				if !yield(rec, nil) {
					return
				}
			}
			if err != nil {
				yield(backend.Record{}, failed("list", prefix, err))
				return
			}
			if !more {
				return
			}
			from = page[len(page)-1].Key + "!" // before every key that begins with that key
			limit = nextLimit(page)
		}
	}
}

// between returns the range of the keys that begin with prefix: from the first key up to, but not
// including, to, in byte order.
func between(prefix string) (from, to string) {
	for i := range len(prefix) {
		if c := prefix[i]; c < '-' || c > 'z' {
			return "{", "{" // no key has such a byte
		}
	}
	return prefix, prefix + "{" // '{' is behind 'z'
}

// nextLimit returns how many records to request after a page.
func nextLimit(page []backend.Record) int {
	size := len(page)
	for _, rec := range page {
		size += len(rec.Value)
	}
	return max(1, min(pageRows, pageBytes*len(page)/size))
}

// page returns the first records from a key on, whether there may be more, and an error after
// them.
func (s *Store) page(ctx context.Context, from, to string, limit int) (page []backend.Record, more bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	var stored []row
	size := 0
	err = s.with(ctx, func(c *pgxpool.Conn) error {
		rows, err := c.Query(ctx, s.sql.page, from, to, limit)
		if err != nil {
			return err
		}
		for size < 2*pageBytes && rows.Next() {
			var r row
			if err := rows.Scan(&r.key, &r.value, &r.revision.seq, &r.revision.nonce, &r.sum); err != nil {
				return err
			}
			stored, size = append(stored, r), size+len(r.value)
		}
		rows.Close() // skips the rest
		return rows.Err()
	})
	if err != nil {
		return nil, false, err
	}
	for _, r := range stored {
		rec, err := r.record()
		if err != nil {
			return page, false, err
		}
		page = append(page, rec)
	}
	return page, len(page) == limit || size >= 2*pageBytes, nil
}

// admit validates the arguments of a call before any effect.
func admit(ctx context.Context, key string, value []byte) error {
	if err := backend.ValidateKey(key); err != nil {
		return err
	}
	if err := backend.ValidateValue(value); err != nil {
		return err
	}
	return ctx.Err()
}
