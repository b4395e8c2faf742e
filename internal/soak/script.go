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
)

// step is something that a person or a program does with the environment. It looks
// first at what is stored, and may be taken again at any time: a process that
// dies leaves it to the next one.
type step struct {
	name string
	// do reports whether the step is done; it is taken again until it is.
	do func(ctx context.Context, w *environment) (done bool, err error)
}

// script is what happens in an environment, step by step.
type script struct {
	name     string
	clusters []resident
	// prepare is what the members are like, after every start.
	prepare func(w *environment)
	steps   []step
	// heals is the number of the first step at which nothing refuses or fails
	// any more.
	heals int
	// aside is done all the time beside the steps; nil for nothing.
	aside func(ctx context.Context, w *environment)
	// patience is how long a step may take; 0 is a minute.
	patience time.Duration
}

// cursor says how far a script has come.
type cursor struct {
	Script string `json:"script"`
	Step   int    `json:"step"`
}

// play goes on with a script where the directory says that it is, until it is
// over, a law is violated or ctx ends. ready is told when everything is open.
func (s script) play(ctx context.Context, w *environment, ready func()) error {
	if err := w.settle(ctx, s.clusters); err != nil {
		return err
	}
	if s.prepare != nil {
		s.prepare(w)
	}
	at := cursor{Script: s.name}
	if _, err := w.read(ctx, "soak/cursor", &at); err != nil {
		return err
	}
	if at.Script != s.name {
		return fmt.Errorf("%s: the directory is in script %s, not %s", w.dir, at.Script, s.name)
	}
	ctx, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	all.Go(func() { w.run(ctx) })
	all.Go(func() { w.watch(ctx) })
	if s.aside != nil {
		all.Go(func() { s.aside(ctx, w) })
	}
	ready()
	for ; at.Step < len(s.steps); at.Step++ {
		if at.Step >= s.heals && s.heals > 0 {
			w.heal()
		}
		if err := s.take(ctx, w, at.Step); err != nil {
			return err
		}
		if err := s.turn(ctx, w, at.Step+1); err != nil {
			return err
		}
	}
	return w.laws.err()
}

// try takes a step once, with the time that a host would allow for it.
func (s step) try(ctx context.Context, w *environment) (bool, error) {
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	return s.do(ctx, w)
}

// turn notes that the script has come to its nth step.
func (s script) turn(ctx context.Context, w *environment, n int) error {
	for {
		err := w.note(ctx, "soak/cursor", cursor{s.name, n})
		if err == nil || !errors.Is(err, errFull) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// heal ends what refuses, fails and is wrong.
func (w *environment) heal() {
	w.healed.Store(true)
	w.meter.full.Store(false)
	w.clocks.correct()
}

// take takes one step until it is done.
func (s script) take(ctx context.Context, w *environment, n int) error {
	patience := s.patience
	if patience == 0 {
		patience = time.Minute
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		done, err := s.steps[n].try(ctx, w)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case w.laws.err() != nil:
			return w.laws.err()
		case done && err == nil:
			return nil
		case err != nil && !w.bears(err):
			return fmt.Errorf("step %d, %s: %w", n, s.steps[n].name, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-late.C:
			w.laws.violated("step %d, %s, is not done after %v (%v)%s\n    %s", n, s.steps[n].name, patience, err, w.waits(ctx), w.stacks())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// bears reports whether an error may be one of those which were ordered: by faults, a
// full disk, or a pause that was longer than a call may take. A call that took
// longer because the machine was busy is borne in any story; what hangs is not done
// when patience is over.
func (w *environment) bears(err error) bool {
	return w.lease > 0 || errors.Is(err, context.DeadlineExceeded)
}

// stacks writes what every goroutine is doing into a file, and says where.
func (w *environment) stacks() string {
	name := filepath.Join(w.dir, "stacks.txt")
	f, err := os.Create(name)
	if err == nil {
		err = errors.Join(pprof.Lookup("goroutine").WriteTo(f, 1), f.Close())
	}
	if err != nil {
		return err.Error()
	}
	return "what every goroutine was doing is in " + name
}

// waits says what every run waits for.
func (w *environment) waits(ctx context.Context) (out string) {
	placements, _ := w.eyes.Placements(ctx)
	for _, p := range placements {
		runs, _ := w.eyes.Runs(ctx, p)
		for _, r := range runs {
			s, err := w.eyes.Status(ctx, r)
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
