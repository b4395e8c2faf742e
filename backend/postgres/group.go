package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/slipway-dev/slipway/backend"
)

const (
	// At most transactions run at a time. Puts that arrive during them wait, and the next
	// transaction takes up to groupPuts of them, and up to groupBytes: a round trip and a commit
	// cost a server as much as several updates.
	transactions = 2
	groupPuts    = 32
	groupBytes   = 1 << 20
	// A batch of more than groupBatch writes is sent alone, beside them.
	groupBatch = 8
	// A transaction that takes longer than slow does not delay others any more.
	slow = 100 * time.Millisecond
)

// groupLimitsSQL limits how long a group waits for a row that another transaction has locked, so
// that the other puts do not wait longer.
const groupLimitsSQL = `SELECT set_config('lock_timeout', '100ms', true)`

// put is a call of one caller, in one statement: a record, or a small batch.
type put struct {
	writes
	ctx  context.Context //nolint:containedctx // the caller waits for the group
	err  error
	done chan struct{}
}

// writes is one statement with its result.
type writes interface {
	// first is the lowest of its keys, and size its approximate size in bytes.
	first() string
	size() int
	// keep copies the values, because they belong to the caller.
	keep()
	statement(s *statements) (string, []any)
	// read reads the answer of the server, and returns the session's synchronous_commit. Its error
	// is ErrConflict if nothing was written.
	read(row pgx.Row) (mode string, err error)
	// made yields the written keys.
	made(yield func(key string, a ack))
}

func newPut(ctx context.Context, w writes) *put {
	return &put{ctx: ctx, writes: w, done: make(chan struct{})}
}

// answer gives the caller the result of the put.
func (p *put) answer(err error) {
	p.err = err
	close(p.done)
}

// group has the puts that wait for a transaction.
type group struct {
	mu      sync.Mutex
	sending int // transactions that delay others
	within  int // the number of their puts
	waiting []*put
}

// begin queues a put, and returns the puts of the next transaction if it must be sent now. If
// others may send the put, it gets copies of its values, because a caller that cancels may change
// its own.
func (g *group) begin(p *put) []*put {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sending > 0 {
		p.keep()
	}
	g.waiting = append(g.waiting, p)
	return g.take()
}

// end records that a transaction of n puts no longer delays other puts. It returns the puts of the
// next transaction if that must be sent now.
func (g *group) end(n int) []*put {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sending--
	g.within -= n
	return g.take()
}

// take returns the puts of the next transaction if it must be sent now. A second concurrent
// transaction is worth its commit if it has at least as many puts as the first.
func (g *group) take() []*put {
	if g.sending == transactions || len(g.waiting) < max(1, g.within) {
		return nil
	}
	n, size := 0, 0
	for n < len(g.waiting) && n < groupPuts {
		if size += g.waiting[n].size(); n > 0 && size > groupBytes {
			break
		}
		n++
	}
	puts := slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	g.sending++
	g.within += n
	return puts
}

// leave removes a waiting put.
func (g *group) leave(p *put) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = slices.DeleteFunc(g.waiting, func(w *put) bool { return w == p })
}

// put sends a put: alone, or in a transaction with others if several arrive while others are
// sent.
func (s *Store) put(p *put) error {
	puts := s.group.begin(p)
	if len(puts) == 1 && puts[0] == p {
		if next := s.inTurn(1, func() { p.err = s.alone(p) }); len(next) > 0 {
			go s.sendOn(next)
		}
		return p.err
	}
	if len(puts) > 0 {
		go s.sendOn(puts)
	}
	select {
	case <-p.done:
		return p.err
	case <-p.ctx.Done():
		s.group.leave(p)
		return p.ctx.Err()
	}
}

// sendOn sends puts, and the puts that queue up in the meantime. The transactions share a
// goroutine, because its stack has already grown to the size that a transaction needs.
func (s *Store) sendOn(puts []*put) {
	for len(puts) > 0 {
		puts = s.inTurn(len(puts), func() { s.together(puts) })
	}
}

// inTurn calls f, which sends a transaction of n puts, and returns the puts to send after it. If
// f is slow, they are sent concurrently.
func (s *Store) inTurn(n int, f func()) []*put {
	timer := time.AfterFunc(slow, func() { s.sendOn(s.group.end(n)) })
	f()
	if !timer.Stop() {
		return nil
	}
	return s.group.end(n)
}

// alone makes a put in its own transaction.
func (s *Store) alone(p *put) error {
	statement, args := p.statement(&s.sql)
	return s.commit(p.ctx, func(c *pgxpool.Conn) (mode string, err error) {
		return p.read(c.QueryRow(p.ctx, statement, args...))
	}, func() { p.made(s.acked.add) })
}

// together makes puts in one transaction, and answers them. Each put succeeds or conflicts on its
// own. If the server refuses the transaction, nothing was written, and each put is made alone, so
// that none waits for a row that another one needs.
func (s *Store) together(puts []*put) {
	if len(puts) == 1 {
		puts[0].answer(s.alone(puts[0]))
		return
	}
	// Batches lock rows in the order of their keys, too. If one has keys on both sides of another
	// put, two transactions may wait for each other; the time limit of locks ends that.
	slices.SortFunc(puts, func(a, b *put) int { return strings.Compare(a.first(), b.first()) })
	ctx, cancel := untilAllGaveUp(puts)
	defer cancel()
	err := s.commit(ctx, func(c *pgxpool.Conn) (string, error) {
		if puts = answerCanceled(puts); len(puts) == 0 {
			return "", context.Canceled
		}
		return s.send(ctx, c, puts)
	}, func() {
		for _, p := range puts {
			if p.err == nil {
				p.made(s.acked.add)
			}
		}
	})
	for _, p := range puts {
		switch {
		case refused(err):
			go func() { p.answer(s.alone(p)) }()
		case err != nil:
			p.answer(err)
		default:
			p.answer(p.err)
		}
	}
}

// answerCanceled answers the puts whose callers canceled, because the wait for a connection may
// have been long, and returns the others.
func answerCanceled(puts []*put) []*put {
	return slices.DeleteFunc(puts, func(p *put) bool {
		err := p.ctx.Err()
		if err != nil {
			p.answer(err)
		}
		return err != nil
	})
}

// untilAllGaveUp returns a context that ends when the contexts of all puts have ended.
func untilAllGaveUp(puts []*put) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(puts[0].ctx))
	var left atomic.Int64
	left.Store(int64(len(puts)))
	stops := make([]func() bool, len(puts))
	for i, p := range puts {
		stops[i] = context.AfterFunc(p.ctx, func() {
			if left.Add(-1) == 0 {
				cancel()
			}
		})
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

// send sends puts as one transaction, and reads the result of each.
func (s *Store) send(ctx context.Context, c *pgxpool.Conn, puts []*put) (mode string, err error) {
	b := &pgx.Batch{}
	b.Queue(groupLimitsSQL)
	for _, p := range puts {
		statement, args := p.statement(&s.sql)
		b.Queue(statement, args...)
	}
	results := c.SendBatch(ctx, b)
	defer func() {
		if closing := results.Close(); err == nil {
			err = closing
		}
	}()
	_, err = results.Exec()
	for _, p := range puts {
		if err != nil {
			break
		}
		var now string
		switch now, p.err = p.read(results.QueryRow()); {
		case p.err == nil:
			mode = now
		case !errors.Is(p.err, backend.ErrConflict):
			err = p.err
		}
	}
	return mode, err
}
