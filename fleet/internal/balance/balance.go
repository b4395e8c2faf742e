// Package balance keeps the session of an engine, and distributes the runs of a store among its
// engines without a coordinator.
//
// An engine renews its session every third of a lease if it drives runs, watches placements or
// knows of runs of other engines. The session is one record, which extends all leases that name the
// engine, so that a waiting run costs no writes. The session states how many runs the engine
// drives. Each engine counts the sessions of other engines that were renewed within a lease, and
// their runs. An engine that exceeds its share, rounded up, for two rounds releases the surplus for
// other engines. An engine that has no runs and no watches and is alone on a store has no session,
// and the session of an engine that died is deleted. Sessions may be out of date, so an engine may
// exceed its share for a while, and a run may move once too often; leases and epochs prevent that
// two engines drive a run.
package balance

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
)

// mostAtOnce bounds the runs released in a round.
const mostAtOnce = 16

// Options configure a [Balancer]. All fields are required.
type Options struct {
	Store backend.Store
	// Name is the name of the engine.
	Name        string
	Lease, Skew time.Duration
	Now         func() time.Time
	// Here converts a time of the engine's clock to the clock that timers use.
	Here func(time.Time) time.Time
	Log  *slog.Logger

	// Count returns how many runs this engine drives, and how many others drive as far as this engine
	// knows.
	Count func() (own, others int)
	// Watches reports whether this engine watches placements.
	Watches func() bool
	// Lapsed returns the keys of the records whose leases the session must not extend.
	Lapsed func() []string
	// GiveBack releases n runs.
	GiveBack func(n int)
}

// Balancer balances the runs for one engine.
type Balancer struct {
	o   Options
	key string
	rev backend.Revision

	mu sync.Mutex
	// others are the other engines with a session, by the keys of their records.
	others map[string]engine
	// session is the session of this engine.
	session session
	// news signals that there may be other engines, deleted that the session of this engine was
	// deleted.
	news, deleted chan struct{}
}

// engine is the session of another engine as this engine read it.
type engine struct {
	rev backend.Revision
	// runs is the number of runs that it drives, or notShared.
	runs int
	// read is when this revision was read first; alive reports whether it replaced an earlier
	// revision.
	read  time.Time
	alive bool
}

// New returns a balancer.
func New(o Options) *Balancer {
	return &Balancer{o: o, key: record.EngineKey(o.Name), others: map[string]engine{}, news: make(chan struct{}, 1), deleted: make(chan struct{}, 1)}
}

// Wake makes an idle balancer count the runs again. A balancer is idle while its engine is alone
// and has no runs; Wake is called when another engine may have a run.
func (b *Balancer) Wake() {
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// Changed processes a change of the record of an engine.
func (b *Balancer) Changed(ctx context.Context, c backend.Change) {
	if c.Key == b.key {
		if c.Deleted {
			b.lost()
		}
		return
	}
	b.mu.Lock()
	known := b.others[c.Key]
	if c.Deleted {
		delete(b.others, c.Key)
	}
	b.mu.Unlock()
	if c.Deleted || known.rev == c.Revision {
		return
	}
	stored, err := b.o.Store.Get(ctx, c.Key)
	var said record.Engine
	if err != nil || record.Decode(stored, &said) != nil {
		return
	}
	b.observe(c.Key, stored.Revision, shared(&said))
	b.Wake()
}

// isAlone reports whether no other engine is known.
func (b *Balancer) isAlone() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.others) == 0
}

// Surplus returns by how many runs this engine exceeds its share. It is negative if the engine has
// fewer runs than its share.
func (b *Balancer) Surplus(own int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	all, engines := own, 1
	for _, e := range b.others {
		if !b.isOld(e) && e.runs != notShared {
			all += e.runs
			engines++
		}
	}
	return own - (all+engines-1)/engines
}

// HasMore reports whether another engine drives fewer runs than this engine. A session that was not
// renewed recently or is ending does not count, because its engine takes no runs.
func (b *Balancer) HasMore(own int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.others {
		if time.Since(e.read) < b.o.Lease/2 && e.runs != notShared && e.runs < own {
			return true
		}
	}
	return false
}

// isOld reports whether a session was not renewed within a lease, because its engine has ended or
// no longer needs a session.
func (b *Balancer) isOld(e engine) bool { return time.Since(e.read) > b.o.Lease+b.o.Skew }

// forgetOld deletes old sessions of other engines.
func (b *Balancer) forgetOld(ctx context.Context) {
	b.mu.Lock()
	var old []backend.Write
	for key, e := range b.others {
		if b.isOld(e) {
			old = append(old, record.Delete(key, e.rev))
			delete(b.others, key)
		}
	}
	b.mu.Unlock()
	record.Discard(ctx, b.o.Store, old)
}

// Run works until ctx ends. Then it marks the session as ending; [Balancer.End] deletes it after
// the runs were released.
func (b *Balancer) Run(ctx context.Context) {
	defer b.leave(ctx)
	before := 0
	for {
		own, others := b.o.Count()
		b.forgetOld(ctx)
		n := b.Surplus(own)
		lasting := min(n, before)
		if before = n; lasting > 0 {
			b.o.Log.Info("runs are given back for other engines to take", "engine", b.o.Name, "drives", own, "surplus", lasting)
			b.o.GiveBack(min(lasting, mostAtOnce))
			before = 0 // until the others report the runs that they took
		}
		needed := own+others > 0 || b.o.Watches()
		var err error
		switch {
		case needed:
			err = b.renew(ctx, own, false)
		case b.rev != "":
			err = b.end(ctx)
		}
		if err != nil && ctx.Err() == nil {
			b.o.Log.Warn("the session of this engine was not renewed, which is tried again", "engine", b.o.Name, "error", err)
		}
		if !needed && b.rev == "" && b.isAlone() {
			select {
			case <-b.news:
			case <-ctx.Done():
			}
		}
		select {
		case <-time.After(b.o.Lease / 3):
		case <-b.deleted:
		case <-ctx.Done():
			return
		}
	}
}
