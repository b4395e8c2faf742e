// Package balance keeps the session of an engine, and shares the runs of a store out among the engines on it, without a
// coordinator.
//
// An engine that drives runs or watches placements, or that sees runs of others, renews its session every third of a lease: one
// record, which extends all leases that name the engine, so that a run which waits costs no writes. The session says how many
// runs the engine drives. Each engine counts the sessions of others that were renewed within a lease, and the runs in them: an
// engine that has more than its part, rounded up, for two rounds gives the rest back, for the others to take. An engine without
// runs and watches that is alone on a store has no session, and the session of an engine that died is deleted. Sessions may be
// old, so an engine may have more than its part for a while, and a run may move once too often; leases and epochs keep a run
// from being driven by two.
package balance

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
)

// mostAtOnce is how many runs are given back in a round.
const mostAtOnce = 16

// Options are what a [Balancer] is made of. All are required.
type Options struct {
	Store backend.Store
	// Name is that of the engine.
	Name        string
	Lease, Skew time.Duration
	Now         func() time.Time
	// Here is when the engine's clock shows a time, in the time that timers go by.
	Here func(time.Time) time.Time
	Log  *slog.Logger

	// Count returns how many runs this engine drives, and how many others do as far as it knows.
	Count func() (own, others int)
	// Watches reports whether this engine watches placements.
	Watches func() bool
	// Lapsed returns the keys of the records whose leases the session must not extend.
	Lapsed func() []string
	// GiveBack gives runs back.
	GiveBack func(n int)
}

// Balancer is one engine's part in it.
type Balancer struct {
	o   Options
	key string
	rev backend.Revision

	mu sync.Mutex
	// others are the engines that have said something, by the keys of their records.
	others map[string]engine
	// session is that of this engine.
	session session
	// news signals that there may be others, deleted that the session of this engine was deleted.
	news, deleted chan struct{}
}

// engine is what another engine said, and when this one read it.
type engine struct {
	rev backend.Revision
	// runs is how many it drives, or notShared.
	runs int
	// read is when this revision was read first; alive reports whether it replaced another one.
	read  time.Time
	alive bool
}

// New returns a balancer.
func New(o Options) *Balancer {
	return &Balancer{o: o, key: record.EngineKey(o.Name), others: map[string]engine{}, news: make(chan struct{}, 1), deleted: make(chan struct{}, 1)}
}

// Wake has the balancer of an engine that was alone count again, because another one may have a run.
func (b *Balancer) Wake() {
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// Changed takes in that the record of an engine is there or was written.
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

// Surplus is how many of the runs that this engine drives are more than its part.
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

// HasMore reports whether another engine drives fewer runs than this one. A session that was not renewed lately, or is ending, does
// not count, because its engine takes no run.
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

// isOld reports whether an engine has ended, or has no runs to see.
func (b *Balancer) isOld(e engine) bool { return time.Since(e.read) > b.o.Lease+b.o.Skew }

// forgetOld deletes what engines said that have ended.
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

// Run works until ctx ends. Then the session says that the engine is ending, and [Balancer.End] deletes it after the runs
// were given back.
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
			before = 0 // until the others have said what they took
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
