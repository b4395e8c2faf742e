package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/slipway-dev/slipway/internal/soak/environment"
)

// soaking plays scenarios for a time.
type soaking struct {
	out     io.Writer
	lasts   time.Duration
	every   time.Duration
	seed    uint64
	number  int
	count   int
	most    int
	engines int
	dir     string

	tally tally
	base  *health
}

// tally counts completed work.
type tally struct {
	scenarios, runs, kills, pauses int
	writes, checks                 int64
	health                         health
}

// run plays scenarios until the time is over or a law is violated.
func (s *soaking) run(ctx context.Context) (err error) {
	if s.dir == "" {
		if s.dir, err = os.MkdirTemp("", "soak-"); err != nil {
			return err
		}
		defer func() {
			if err == nil {
				err = os.RemoveAll(s.dir)
			}
		}()
	}
	_, _ = fmt.Fprintf(s.out, "seed %d, scenarios from %d, in %s\n", s.seed, s.number, s.dir)
	began, told := time.Now(), time.Now()
	for ; time.Since(began) < s.lasts && ctx.Err() == nil && (s.count == 0 || s.tally.scenarios < s.count); s.number++ {
		if err := s.scenario(ctx); err != nil {
			if ctx.Err() != nil {
				break
			}
			s.line(time.Since(began))
			return fmt.Errorf("scenario %d of seed %d, the environment is in %s; alone: go run ./internal/soak -seed %d -scenario %d -count 1 -most %d -engines %d\n%w",
				s.number, s.seed, s.dir, s.seed, s.number, s.most, s.engines, err)
		}
		if time.Since(told) >= s.every {
			told = time.Now()
			s.line(time.Since(began))
		}
	}
	s.line(time.Since(began))
	return nil
}

func (s *soaking) line(after time.Duration) {
	t := &s.tally
	_, _ = fmt.Fprintf(s.out, "%v: %d scenarios, %d runs, %d kills, %d pauses, %d writes here, %d checks; %v\n",
		after.Round(time.Second), t.scenarios, t.runs, t.kills, t.pauses, t.writes, t.checks, &t.health)
}

// scenario plays the next scenario, and checks that all resources return to their initial sizes.
func (s *soaking) scenario(ctx context.Context) error {
	r := rand.New(rand.NewPCG(s.seed, uint64(s.number)^1<<40))
	play := s.here
	if r.IntN(2) == 0 {
		play = s.killed
	}
	if err := play(ctx, r); err != nil {
		return err
	}
	s.tally.scenarios++
	s.tally.runs += len(newDrawn(s.seed, s.number, s.most).runs)
	files, err := s.sweep(ctx)
	if err != nil {
		return err
	}
	now := measure(files)
	s.tally.health = now
	if s.base == nil {
		s.base = &now
	}
	return now.against(s.base)
}

// newDrawn draws all of a scenario.
func newDrawn(seed uint64, number, most int) *scenario {
	s := newScenario(seed, number, most)
	s.script()
	return s
}

// here plays a scenario in this process, with faults.
func (s *soaking) here(ctx context.Context, _ *rand.Rand) error {
	drawn := newScenario(s.seed, s.number, s.most)
	meter := &environment.Meter{}
	env, err := environment.Open(ctx, environment.Options{Dir: s.dir, Engines: s.engines, Lease: soakLease, Faults: drawn.faults, Meter: meter})
	if err != nil {
		return err
	}
	err = drawn.script().play(ctx, env, func() {})
	s.tally.writes += meter.Writes.Load()
	s.tally.checks += env.Checks()
	return errors.Join(err, env.Close())
}

// killed plays a scenario in children that are killed or paused.
func (s *soaking) killed(ctx context.Context, r *rand.Rand) error {
	k := &killer{
		life:   life{dir: s.dir, engines: s.engines, seed: s.seed, scenario: s.number, most: s.most},
		rand:   r,
		within: 2 * time.Second, writes: 400, limit: 1 + r.IntN(12), pauses: true,
	}
	k.checked = func() error { return k.inspect(ctx, nil) }
	err := k.run(ctx)
	s.tally.kills += k.kills
	s.tally.pauses += k.pausesDone
	return err
}

// sweep deletes the state of an ended scenario, and returns the contents of the files.
func (s *soaking) sweep(ctx context.Context) (files environment.Footprint, err error) {
	env, err := environment.Open(ctx, environment.Options{Dir: s.dir})
	if err != nil {
		return files, err
	}
	err = sweep(ctx, env)
	if err == nil {
		files, err = env.Footprint(ctx)
	}
	return files, errors.Join(err, env.Close())
}

func sweep(ctx context.Context, env *environment.Environment) error {
	if err := env.CheckAudit(ctx); err != nil {
		return err
	}
	if err := env.Violations.Err(); err != nil {
		return err
	}
	if err := forgetRuns(ctx, env); err != nil {
		return err
	}
	if err := env.Reset(ctx); err != nil {
		return err
	}
	return env.Compact(ctx)
}
