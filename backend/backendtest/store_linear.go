package backendtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
)

// The recorded histories belong to pairs of keys, each with its own racers. Many pairs run at
// once, so that a store can make the writes of several callers durable together.
const (
	linearPairs  = 500 // two histories each
	linearAtOnce = 50
	linearMoves  = 10 // per racer
	// linearTime is the time after which the rest of the pairs is skipped for a slow store.
	linearTime = limit / 4
)

// raceLinear proves that the observations of the racers are linearizable: every call could have
// happened at one moment between its beginning and its end.
func raceLinear(ctx context.Context, s backend.Store) error {
	return checkPairs(ctx, s, linearPairs)
}

// ambiguousLinear is raceLinear while some writes fail after they took effect, some before, and
// some are made calls later.
func ambiguousLinear(ctx context.Context, s backend.Store) error {
	every := func(n, rest int) func(faulty.Call) bool {
		return func(c faulty.Call) bool { return c.Write > 0 && c.Write%n == rest }
	}
	return checkPairs(ctx, faulty.NewPlan(
		faulty.On(every(11, 3), faulty.After(nil)),
		faulty.On(every(23, 5), faulty.Before(nil)),
		faulty.On(every(29, 7), faulty.LateCalls(nil, 20))).Store(s), linearPairs)
}

// checkPairs records and checks the histories of n pairs of keys.
func checkPairs(ctx context.Context, s backend.Store, n int) error {
	begin := time.Now()
	for first := 0; first < n && time.Since(begin) < linearTime; first += linearAtOnce {
		pairs := make([]*keyPair, min(linearAtOnce, n-first))
		for i := range pairs {
			pairs[i] = newKeyPair(first + i)
		}
		err := together(len(pairs)*racers, func(i int) error {
			return pairs[i/racers].race(ctx, s, i%racers)
		})
		for _, p := range pairs {
			err = errors.Join(err, p.check())
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// keyPair is two keys and the calls on them.
type keyPair struct {
	n    int
	keys [2]string
	// clock orders beginnings and ends of calls; unlike time it never returns the same value twice.
	clock atomic.Int64
	calls [racers][]*keyCall
}

func newKeyPair(n int) *keyPair {
	p := &keyPair{n: n}
	for i := range p.keys {
		p.keys[i] = fmt.Sprintf("linear/%d/%d", n, i)
	}
	return p
}

// race makes the moves of one racer. The moves are the same in each run, but not their
// interleaving.
func (p *keyPair) race(ctx context.Context, s backend.Store, client int) error {
	r := &keyRacer{pair: p, store: s, client: client, dice: rand.New(rand.NewPCG(uint64(p.n), uint64(client)))} //nolint:gosec // the race must be repeatable by its seed
	for range linearMoves {
		if err := r.move(ctx); err != nil {
			return err
		}
		runtime.Gosched()
	}
	return ctx.Err()
}

// keyRacer calls a store and records its observations.
type keyRacer struct {
	pair   *keyPair
	store  backend.Store
	client int
	dice   *rand.Rand
	// seen are the revisions of each key that the racer has seen.
	seen [2][]backend.Revision
}

func (r *keyRacer) move(ctx context.Context) error {
	key := r.dice.IntN(2)
	switch d := r.dice.IntN(20); {
	case d < 8:
		return r.get(ctx, key)
	case d < 17:
		return r.write(ctx, r.choose(key))
	case d < 18:
		return r.interrupted(ctx, r.choose(key))
	}
	return r.write(ctx, r.choose(key), r.choose(1-key))
}

// interrupted makes a write whose context is canceled at the same time.
func (r *keyRacer) interrupted(ctx context.Context, w backend.Write) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go cancel()
	return r.write(ctx, w)
}

// choose returns a write of a key with a revision that is likely the current one, or empty, or an
// old one. No value is written twice.
func (r *keyRacer) choose(key int) backend.Write {
	w := backend.Write{Key: r.pair.keys[key]}
	if seen := r.seen[key]; len(seen) > 0 {
		switch d := r.dice.IntN(8); d {
		case 0:
		case 1:
			w.Prev = seen[r.dice.IntN(len(seen))]
		default:
			w.Prev = seen[len(seen)-1]
		}
	}
	if w.Delete = w.Prev != "" && r.dice.IntN(4) == 0; !w.Delete {
		w.Value = []byte(strconv.Itoa(r.client) + "." + strconv.FormatInt(r.pair.clock.Add(1), 10))
	}
	return w
}

func (r *keyRacer) get(ctx context.Context, key int) error {
	c := &keyCall{client: r.client, key: r.pair.keys[key], op: "get", began: r.pair.clock.Add(1)}
	rec, err := r.store.Get(ctx, c.key)
	c.ended = r.pair.clock.Add(1)
	c.value, c.revision = string(rec.Value), rec.Revision
	switch {
	case errors.Is(err, backend.ErrNotFound):
		c.value, c.revision = "", ""
	case err != nil:
		return r.unless(transient(err), c, err)
	case rec.Revision == "":
		return fmt.Errorf("get %s: the record has no revision", c.key)
	}
	r.note(c)
	return nil
}

// write makes the writes, several at once. Writes after a refused one were not tried.
func (r *keyRacer) write(ctx context.Context, writes ...backend.Write) error {
	calls := make([]*keyCall, len(writes))
	for i, w := range writes {
		calls[i] = newKeyCall(r.client, w)
		calls[i].began = r.pair.clock.Add(1)
	}
	made, err := r.call(ctx, writes)
	ended := r.pair.clock.Add(1)
	if len(made) > len(writes) || err == nil && len(made) < len(writes) {
		return fmt.Errorf("%d of %d writes were made, and the error is %w", len(made), len(writes), err)
	}
	for i, c := range calls {
		c.ended = ended
		switch {
		case i < len(made):
			c.revision = made[i]
		case transient(err):
			c.unknown = true
		case i > len(made):
			return nil
		case errors.Is(err, backend.ErrConflict), c.op == "delete" && errors.Is(err, backend.ErrNotFound):
			c.refused = err
		default:
			return fmt.Errorf("%s %s: the error is %w", c.op, c.key, err)
		}
		r.note(c)
	}
	return nil
}

// call makes one write as Put or Delete, and several as WriteAll.
func (r *keyRacer) call(ctx context.Context, writes []backend.Write) ([]backend.Revision, error) {
	w := writes[0]
	var rev backend.Revision
	var err error
	switch {
	case len(writes) > 1:
		return backend.WriteAll(ctx, r.store, writes)
	case w.Delete:
		err = r.store.Delete(ctx, w.Key, w.Prev)
	default:
		rev, err = r.store.Put(ctx, w.Key, w.Value, w.Prev)
	}
	if err != nil {
		return nil, err
	}
	return []backend.Revision{rev}, nil
}

// note records a call with its result, and the revision that it returned.
func (r *keyRacer) note(c *keyCall) {
	r.pair.calls[r.client] = append(r.pair.calls[r.client], c)
	for i, key := range r.pair.keys {
		if key == c.key && c.revision != "" {
			r.seen[i] = append(r.seen[i], c.revision)
		}
	}
}

// unless returns err with the call, or nil if ok. It is for calls that are not recorded.
func (r *keyRacer) unless(ok bool, c *keyCall, err error) error {
	if ok {
		return nil
	}
	return fmt.Errorf("%s %s: the error is %w", c.op, c.key, err)
}

func transient(err error) bool { return err != nil && wantTransient("", err) == nil }
