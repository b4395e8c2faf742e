package backendtest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
)

const (
	racers = 8  // concurrent writers
	rounds = 20 // rounds of each writer
)

func raceCreate(ctx context.Context, s backend.Store) error {
	for round := range rounds {
		var won atomic.Int32
		err := together(racers, func(i int) error {
			_, err := s.Put(ctx, "r/"+strconv.Itoa(round), []byte{byte(i)}, "")
			if err == nil {
				won.Add(1)
				return nil
			}
			return want("create at once", err, backend.ErrConflict)
		})
		if err != nil {
			return err
		}
		if won.Load() != 1 {
			return fmt.Errorf("%d of %d created the same key", won.Load(), racers)
		}
	}
	return nil
}

// increment adds one by compare-and-swap and returns the new value.
func increment(ctx context.Context, s backend.Store, key string) (int, error) {
	for {
		n, revision, err := counter(ctx, s, key)
		if err != nil {
			return 0, err
		}
		_, err = s.Put(ctx, key, []byte(strconv.Itoa(n+1)), revision)
		if err == nil {
			return n + 1, nil
		}
		if err := want("put", err, backend.ErrConflict); err != nil {
			return 0, err
		}
	}
}

// counter returns the number that key holds, 0 if it does not exist.
func counter(ctx context.Context, s backend.Store, key string) (int, backend.Revision, error) {
	r, err := s.Get(ctx, key)
	if errors.Is(err, backend.ErrNotFound) {
		return 0, "", nil
	}
	if err != nil {
		return 0, "", err
	}
	n, err := strconv.Atoi(string(r.Value))
	return n, r.Revision, err
}

func raceCounter(ctx context.Context, s backend.Store) error {
	err := together(racers, func(int) error {
		for range rounds {
			if _, err := increment(ctx, s, "counter"); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	n, _, err := counter(ctx, s, "counter")
	if err == nil && n != racers*rounds {
		err = fmt.Errorf("the counter is %d after %d increments", n, racers*rounds)
	}
	return err
}

// ambiguous lets racers append their names to one value, each once, while every third write fails
// after it took effect and every seventh before.
func ambiguous(ctx context.Context, s backend.Store) error {
	plan := faulty.NewPlan(
		faulty.On(func(c faulty.Call) bool { return c.Write > 0 && c.Write%3 == 0 }, faulty.After(nil)),
		faulty.On(func(c faulty.Call) bool { return c.Write > 0 && c.Write%7 == 0 }, faulty.Before(nil)))
	shaky := plan.Store(s)
	err := together(racers, func(i int) error {
		for round := range 5 {
			if err := appendOnce(ctx, shaky, fmt.Sprintf("%d-%d;", i, round)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	r, err := s.Get(ctx, "names")
	if err != nil {
		return err
	}
	if n := strings.Count(string(r.Value), ";"); n != racers*5 {
		return fmt.Errorf("%d names were appended, want %d", n, racers*5)
	}
	return nil
}

// appendOnce appends a name that is missing. After any error it reads again.
func appendOnce(ctx context.Context, s backend.Store, name string) error {
	for ctx.Err() == nil {
		r, err := s.Get(ctx, "names")
		if err != nil && !errors.Is(err, backend.ErrNotFound) {
			return err
		}
		if strings.Contains(string(r.Value), name) {
			return nil
		}
		_, _ = s.Put(ctx, "names", append(r.Value, name...), r.Revision)
	}
	return ctx.Err()
}
