package postgres

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// purgeRows is the maximum number of rows that one statement removes.
	purgeRows = 1000
	// purgeParts is the number of purges per retention.
	purgeParts = 10
)

// purge removes the rows of keys that were deleted long ago.
//
// A row is removed if its transaction had ended a retention ago, by the server's clock and the
// horizons that were recorded then. meta.purged is the horizon below which rows may be missing.
// It is set first: a watch whose position is below it ends.
func (s *Store) purge(ctx context.Context) {
	for {
		s.poll.pause(ctx, s.o.Retention/purgeParts)
		if ctx.Err() != nil {
			return
		}
		if err := s.purgeOnce(ctx); err != nil && ctx.Err() == nil {
			s.o.Logger.WarnContext(ctx, "the rows of deleted keys were not removed", slog.String("schema", s.o.Schema), slog.Any("error", err))
		}
	}
}

func (s *Store) purgeOnce(ctx context.Context) error {
	for _, step := range []struct {
		statement string
		age       time.Duration
	}{{s.sql.horizon, s.o.Retention / purgeParts}, {s.sql.advance, s.o.Retention}, {s.sql.forget, s.o.Retention}} {
		if _, err := s.background(ctx, step.statement, step.age); err != nil {
			return err
		}
	}
	for {
		n, err := s.background(ctx, s.sql.tombstone, purgeRows)
		if err != nil || n < purgeRows {
			return err
		}
		s.poll.pause(ctx, 100*time.Millisecond)
	}
}

// background runs a statement for which no caller waits, and returns how many rows it changed.
func (s *Store) background(ctx context.Context, statement string, args ...any) (n int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	err = s.with(ctx, func(c *pgxpool.Conn) error {
		tag, err := c.Exec(ctx, statement, args...)
		n = tag.RowsAffected()
		return err
	})
	return n, err
}
