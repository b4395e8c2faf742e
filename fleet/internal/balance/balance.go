// Package balance shares the runs of a store out among the engines on it, without a coordinator.
//
// An engine that sees runs of others says every third of a lease how many it drives itself. Each counts those that said so within
// a lease, and what they drive: one that has more than its part, rounded up, for two rounds gives the rest back, for the others to
// take. An engine that is alone on a store says nothing, and what one that died has said is deleted. What is said may be old, so
// an engine may have more than its part for a while, and a run may move once too often; leases and epochs keep a run from being
// driven by two.
package balance

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/stages"
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
	Log         *slog.Logger
}

// Balancer is one engine's part in it.
type Balancer struct {
	o   Options
	key string
	rev backend.Revision

	mu sync.Mutex
	// others are the engines that have said something, by the keys of their records.
	others map[string]engine
	// news signals that there may be others.
	news chan struct{}
}

// engine is what another engine said, and when this one read it.
type engine struct {
	rev  backend.Revision
	runs int
	read time.Time
}

// New returns a balancer.
func New(o Options) *Balancer {
	return &Balancer{o: o, key: record.EngineKey(o.Name), others: map[string]engine{}, news: make(chan struct{}, 1)}
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
	b.mu.Lock()
	defer b.mu.Unlock()
	b.others[c.Key] = engine{stored.Revision, max(0, said.Runs), time.Now()}
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
		if !b.isOld(e) {
			all += e.runs
			engines++
		}
	}
	return own - (all+engines-1)/engines
}

// HasMore reports whether another engine drives fewer runs than this one. What was not said lately does not count, since an engine
// that has ended takes no run.
func (b *Balancer) HasMore(own int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.others {
		if time.Since(e.read) < b.o.Lease/2 && e.runs < own {
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

// Run works until ctx ends. count returns how many runs this engine drives, and how many others do as far as it knows; giveBack
// gives runs back.
func (b *Balancer) Run(ctx context.Context, count func() (own, others int), giveBack func(n int)) {
	before := 0
	for {
		own, others := count()
		b.forgetOld(ctx)
		n := b.Surplus(own)
		lasting := min(n, before)
		if before = n; lasting > 0 {
			b.o.Log.Info("runs are given back for other engines to take", "engine", b.o.Name, "drives", own, "surplus", lasting)
			giveBack(min(lasting, mostAtOnce))
			before = 0 // until the others have said what they took
		}
		var err error
		switch {
		case others > 0:
			err = b.say(ctx, own)
		case b.rev != "":
			err = b.unsay(ctx)
		}
		if err != nil && ctx.Err() == nil {
			b.o.Log.Warn("what this engine drives could not be told to others", "engine", b.o.Name, "error", err)
		}
		if others == 0 && b.rev == "" && b.isAlone() {
			select {
			case <-b.news:
			case <-ctx.Done():
			}
		}
		if !backoff.Sleep(ctx, b.o.Lease/3) {
			break
		}
	}
	if b.rev != "" {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.o.Lease/3)
		defer cancel()
		_ = b.unsay(ctx)
	}
}

// say writes the record of this engine. What another process wrote under its name is overwritten.
func (b *Balancer) say(ctx context.Context, own int) error {
	value := record.Encode(record.Engine{Format: record.Format, Runs: own, At: stages.At(b.o.Now())})
	rev, err := b.o.Store.Put(ctx, b.key, value, b.rev)
	if errors.Is(err, backend.ErrConflict) {
		stored, read := b.o.Store.Get(ctx, b.key)
		if read != nil && !errors.Is(read, backend.ErrNotFound) {
			return read
		}
		rev, err = b.o.Store.Put(ctx, b.key, value, stored.Revision)
	}
	if err == nil {
		b.rev = rev
	}
	return err
}

// unsay deletes the record.
func (b *Balancer) unsay(ctx context.Context) error {
	err := b.o.Store.Delete(ctx, b.key, b.rev)
	b.rev = ""
	return err
}
