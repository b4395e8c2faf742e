package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/internal/soak/environment"
)

// act is an action of a person or a program in the environment. It reads the stored state first
// and may be repeated at any time: if a process dies, the next process repeats the action.
type act struct {
	name string
	// do reports whether the step is done; it is taken again until it is.
	do func(ctx context.Context, env *environment.Environment) (done bool, err error)
}

// script is the sequence of steps in an environment.
type script struct {
	name     string
	clusters []environment.Member
	// prepare configures the members after every start.
	prepare func(env *environment.Environment)
	steps   []act
	// heals is the number of the first step without refusals and failures.
	heals int
	// aside is done all the time beside the steps; nil for nothing.
	aside func(ctx context.Context, env *environment.Environment)
	// patience is the maximum duration of a step; 0 means a minute.
	patience time.Duration
}

// cursor is the position in a script.
type cursor struct {
	Script string `json:"script"`
	Step   int    `json:"step"`
}

// play continues a script at the position that the directory contains, until the script is
// complete, a law is violated or ctx ends. It calls ready after it has opened everything.
func (s script) play(ctx context.Context, env *environment.Environment, ready func()) error {
	if err := env.Provision(ctx, s.clusters); err != nil {
		return err
	}
	if s.prepare != nil {
		s.prepare(env)
	}
	at := cursor{Script: s.name}
	if _, err := env.Load(ctx, "soak/cursor", &at); err != nil {
		return err
	}
	if at.Script != s.name {
		return fmt.Errorf("%s: the directory is in script %s, not %s", env.Dir, at.Script, s.name)
	}
	ctx, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	all.Go(func() { env.Run(ctx) })
	all.Go(func() { env.Watch(ctx) })
	if s.aside != nil {
		all.Go(func() { s.aside(ctx, env) })
	}
	ready()
	for ; at.Step < len(s.steps); at.Step++ {
		if at.Step >= s.heals && s.heals > 0 {
			env.Heal()
		}
		if err := s.take(ctx, env, at.Step); err != nil {
			return err
		}
		if err := s.turn(ctx, env, at.Step+1); err != nil {
			return err
		}
	}
	return env.Violations.Err()
}

// try takes a step once, with the time that a host would allow for it.
func (s act) try(ctx context.Context, env *environment.Environment) (bool, error) {
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	return s.do(ctx, env)
}

// turn records that the script has reached its nth step.
func (s script) turn(ctx context.Context, env *environment.Environment, n int) error {
	for {
		err := env.Save(ctx, "soak/cursor", cursor{s.name, n})
		if err == nil || !errors.Is(err, environment.ErrFull) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// take takes one step until it is done.
func (s script) take(ctx context.Context, env *environment.Environment, n int) error {
	patience := s.patience
	if patience == 0 {
		patience = time.Minute
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		done, err := s.steps[n].try(ctx, env)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case env.Violations.Err() != nil:
			return env.Violations.Err()
		case done && err == nil:
			return nil
		case err != nil && !bears(env, err):
			return fmt.Errorf("step %d, %s: %w", n, s.steps[n].name, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-late.C:
			env.Violations.Add("step %d, %s, is not done after %v (%v)%s\n    %s", n, s.steps[n].name, patience, err, waits(ctx, env), stacks(env))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// bears reports whether an error is expected because of faults, a full disk, or a pause longer
// than a call may take. Every story tolerates a call that took longer because the machine was
// busy; a call that hangs fails the step at the end of its patience.
func bears(env *environment.Environment, err error) bool {
	return env.Lease > 0 || errors.Is(err, context.DeadlineExceeded)
}

// stacks writes the stacks of all goroutines to a file, and returns its name.
func stacks(env *environment.Environment) string {
	name := filepath.Join(env.Dir, "stacks.txt")
	f, err := os.Create(name)
	if err == nil {
		err = errors.Join(pprof.Lookup("goroutine").WriteTo(f, 1), f.Close())
	}
	if err != nil {
		return err.Error()
	}
	return "what every goroutine was doing is in " + name
}

// waits returns the reasons of the waits of all runs.
func waits(ctx context.Context, env *environment.Environment) (out string) {
	placements, _ := env.Observer.Placements(ctx)
	for _, p := range placements {
		runs, _ := env.Observer.Placement(p).RunNames(ctx)
		for _, r := range runs {
			s, err := env.Observer.Run(r).Status(ctx)
			if err != nil {
				out += fmt.Sprintf("\n    run %s: %v", r, err)
				continue
			}
			out += fmt.Sprintf("\n    run %s is %s (%s), held by %q at epoch %d", r, s.Run.State, s.Run.Reason, s.Holder, s.Epoch)
			for _, a := range awaitedOf(s) {
				out += "\n      waits for " + a
			}
		}
	}
	return out
}
