package balance

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/versioned"
)

// mostLapsed bounds the leases that a session may name as not extended. A session with more such
// leases extends none.
const mostLapsed = 256

// session is the session of this engine as last saved.
type session struct {
	// since is when the session began, or began again after an interruption.
	since time.Time
	// until is when this engine stops relying on the session, a while before others may ignore it.
	until  time.Time
	lapsed []string
}

// Covers reports whether the session of this engine extends the lease in the record of a key now.
// saved is when this engine saved the lease, or read it as its own.
func (b *Balancer) Covers(key string, saved time.Time) bool {
	return !b.CoversUntil(key, saved).IsZero()
}

// CoversUntil returns until when this engine may rely on its session for the lease in the record of
// a key. saved is when this engine saved the lease, or read it as its own. It returns the zero time
// if the session does not extend the lease, or was interrupted since saved, because another engine
// may have taken the lease during the interruption.
func (b *Balancer) CoversUntil(key string, saved time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.session
	if isAfter(time.Now(), s.until) || isAfter(s.since, saved.Add(b.relies())) || slices.Contains(s.lapsed, key) {
		return time.Time{}
	}
	return s.until
}

// relies returns how long this engine relies on a lease or session that it saved. Others ignore it
// a third of a lease later.
func (b *Balancer) relies() time.Duration { return b.o.Lease * 2 / 3 }

// isAfter reports whether a is not before b, by the monotonic clock or by the wall clock, because
// the monotonic clock may stand still while the machine is suspended.
func isAfter(a, b time.Time) bool { return !a.Before(b) || !a.Round(0).Before(b.Round(0)) }

// LeasedUntil returns until when the session of another engine extends the lease in the record
// leased, or the zero time if it does not.
func (b *Balancer) LeasedUntil(ctx context.Context, holder, leased string) (time.Time, error) {
	key := record.EngineKey(holder)
	stored, err := b.o.Store.Get(ctx, key)
	if errors.Is(err, backend.ErrNotFound) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	said, newer := decode(stored)
	switch {
	case newer: // its engine has the lease as long as it renews the session
		return b.observe(key, stored.Revision, notShared).read.Add(b.o.Lease + b.o.Skew), nil
	case said.Until == 0 || slices.Contains(said.Lapsed, leased):
		return time.Time{}, nil
	}
	e := b.observe(key, stored.Revision, shared(said))
	return state.FreeFrom(b.o.Here(said.Until.Time()), e.read, e.alive, b.o.Lease, b.o.Skew), nil
}

// decode returns the session in a record, which is empty if the record is damaged, and whether its
// format is newer.
func decode(stored backend.Record) (said *record.Engine, newer bool) {
	said = new(record.Engine)
	err := record.Decode(stored, said)
	if format := (*versioned.FormatError)(nil); errors.As(err, &format) {
		return said, true
	}
	if err != nil {
		return new(record.Engine), false
	}
	return said, false
}

// notShared is the number of runs of an engine that takes no part in the distribution, because it
// is ending or its session cannot be read.
const notShared = -1

// shared returns the number of runs of an engine for the distribution.
func shared(said *record.Engine) int {
	if said.Ending {
		return notShared
	}
	return max(0, said.Runs)
}

// observe records that the session of another engine was read.
func (b *Balancer) observe(key string, rev backend.Revision, runs int) engine {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.others[key]
	if e.rev != rev {
		e = engine{rev: rev, runs: runs, read: time.Now(), alive: e.rev != ""}
		b.others[key] = e
	}
	return e
}

// renew saves the session of this engine. If another process wrote under its name, renew overwrites
// that. An ending session extends leases like any other, because the engine still has the runs that
// it has not released.
func (b *Balancer) renew(ctx context.Context, runs int, ending bool) error {
	ctx, cancel := context.WithTimeout(ctx, b.o.Lease/3) // later, each lease is renewed alone
	defer cancel()
	began, now := time.Now(), stages.At(b.o.Now())
	said := record.Engine{Format: record.Format, Runs: runs, At: now, Until: now.Add(b.o.Lease), Lapsed: b.o.Lapsed(), Ending: ending}
	next := session{since: began, until: began.Add(b.relies()), lapsed: said.Lapsed}
	if len(said.Lapsed) > mostLapsed {
		said.Until, said.Lapsed, next = 0, nil, session{}
	}
	value := record.Encode(said)
	rev, err := b.o.Store.Put(ctx, b.key, value, b.rev)
	replaced := errors.Is(err, backend.ErrConflict) // leases may have been taken
	if replaced {
		stored, read := b.o.Store.Get(ctx, b.key)
		if read != nil && !errors.Is(read, backend.ErrNotFound) {
			return read
		}
		rev, err = b.o.Store.Put(ctx, b.key, value, stored.Revision)
	}
	if err != nil {
		return err
	}
	b.rev = rev
	b.mu.Lock()
	defer b.mu.Unlock()
	if last := b.session; !replaced && !isAfter(began, last.until) && !next.until.IsZero() {
		next.since = last.since
	}
	b.session = next
	return nil
}

// end deletes the session.
func (b *Balancer) end(ctx context.Context) error {
	b.mu.Lock()
	b.session = session{}
	b.mu.Unlock()
	err := b.o.Store.Delete(ctx, b.key, b.rev)
	b.rev = ""
	return err
}

// leave announces to the other engines that this engine is about to release its runs.
func (b *Balancer) leave(ctx context.Context) {
	if b.rev == "" {
		return
	}
	own, _ := b.o.Count()
	if err := b.renew(context.WithoutCancel(ctx), own, true); err != nil {
		b.o.Log.Warn("other engines were not told that this one ends, and may leave it runs for a while", "engine", b.o.Name, "error", err)
	}
}

// lost handles the deletion of this engine's session by another process: no lease is extended until
// the session is saved again.
func (b *Balancer) lost() {
	b.mu.Lock()
	b.session = session{}
	b.mu.Unlock()
	backoff.Wake(b.deleted)
}

// End deletes the session when its engine ends, even if ctx has ended. Run must have returned.
func (b *Balancer) End(ctx context.Context) {
	if b.rev == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.o.Lease/3)
	defer cancel()
	_ = b.end(ctx)
}
