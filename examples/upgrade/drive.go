package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// drive carries out what there is to do until nothing is left but what people have to
// do, and says what happens. Where another process drives, it only tells, until that
// is so of the run. What was told before is not told again: events is behind it.
type drive struct {
	s      *session
	e      *fleet.Engine
	events *fleet.Follower
	// run is the one that is waited for where another process drives.
	run string
	// quietly tells nothing.
	quietly bool
	// until reports whether it is over; nil stands for left.
	until func(context.Context) (bool, error)
}

// newDrive begins behind what has happened.
func (s *session) newDrive(ctx context.Context, e *fleet.Engine, run string) (*drive, error) {
	d := &drive{s: s, e: e, run: run}
	d.until = d.over
	var err error
	if d.events, err = e.Follow(s.fleet(), ""); err != nil {
		return nil, err
	}
	for _, err := range d.events.Past(ctx) {
		if err != nil {
			return nil, err
		}
	}
	return d, nil
}

// watchful is how often the driver checks whether anything is left.
const watchful = 100 * time.Millisecond

func (d *drive) do(ctx context.Context) error {
	if d.s.store.ours {
		if err := d.s.store.serve(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	driven, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(driven)
		if d.s.store.ours {
			_ = d.e.Run(ctx) // it ends with ctx
		}
	}()
	go func() {
		defer close(watched)
		cancel(d.watch(ctx))
	}()
	err := d.tell(ctx)
	<-watched
	if err == nil || ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	cancel(err)
	<-driven
	if errors.Is(err, errQuiet) {
		err = d.tellRest(context.WithoutCancel(ctx))
	}
	return err
}

// errQuiet ends a drive when nothing is left, errGone when the process is gone that
// drives.
var (
	errQuiet = errors.New("nothing is left to do")
	errGone  = errors.New("the process that drives is gone; updaterun start goes on")
)

// watch returns errQuiet once nothing is left.
func (d *drive) watch(ctx context.Context) error {
	for {
		pause(ctx, watchful)
		over, err := d.until(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !d.s.store.ours:
			return fmt.Errorf("%w: %w", errGone, err)
		case err != nil:
			return err
		case over:
			return errQuiet
		}
	}
}

func (d *drive) tell(ctx context.Context) error {
	for e, err := range d.events.Events(ctx) {
		if err != nil {
			return err
		}
		d.event(e)
	}
	return nil
}

func (d *drive) tellRest(ctx context.Context) error {
	for e, err := range d.events.Past(ctx) {
		if err != nil {
			return err
		}
		d.event(e)
	}
	return nil
}

func (d *drive) event(e stages.Event) {
	if !d.quietly {
		d.s.event(e)
	}
}

// over reports whether nothing is left for a process that drives, or of the run that is
// waited for.
func (d *drive) over(ctx context.Context) (bool, error) {
	if !d.s.store.ours {
		st, err := d.e.Status(ctx, d.run)
		if err != nil {
			return false, err
		}
		heard, err := d.s.heard(ctx)
		return heard && d.s.quiet(ctx, d.e, &st) && st.Run.State != stages.Pending, err
	}
	return d.s.left(ctx, d.e)
}

// heard reports whether no command is on its way.
func (s *session) heard(ctx context.Context) (bool, error) {
	for _, err := range s.store.List(ctx, "command/") {
		return false, err
	}
	return true, nil
}

// left reports whether nothing is left of all runs but what people have to do.
func (s *session) left(ctx context.Context, e *fleet.Engine) (bool, error) {
	heard, err := s.heard(ctx)
	if err != nil || !heard {
		return false, err
	}
	names, err := s.names(ctx, e)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		st, err := e.Status(ctx, name)
		if errors.Is(err, backend.ErrNotFound) {
			continue // it was deleted just now
		}
		if err != nil {
			return false, err
		}
		if !s.quiet(ctx, e, &st) {
			return false, nil
		}
	}
	return true, nil
}

// quiet reports whether a run waits for nothing but people, or for another run that is
// not over.
func (s *session) quiet(ctx context.Context, e *fleet.Engine, st *fleet.Status) bool {
	r := &st.Run
	waiting := stages.Waiting(st.Plan, r)
	switch r.State {
	case stages.NotStarted:
		return r.Hold
	case stages.Pending:
		other, err := e.Status(ctx, waiting[0].Name)
		return err == nil && !other.Run.IsEnded()
	case stages.Running:
		return len(waiting) > 0 && !slices.ContainsFunc(waiting, func(a stages.Awaited) bool { return a.Kind != stages.AwaitDecision })
	case stages.Stopping:
		return false
	default:
		return true
	}
}

// startRun starts a run, or goes on with one, and drives it.
func startRun(ctx context.Context, s *session) error {
	return s.startWith(ctx, stages.Command{Verb: stages.Start, By: by()})
}

func retryRun(ctx context.Context, s *session) error {
	only := stages.Only(s.one("only"))
	if only == "" {
		only = stages.OnlyFailed
	}
	return s.startWith(ctx, stages.Command{Verb: stages.Retry, Only: only, By: by()})
}

// startWith gives a command after which the run goes on, and drives it.
func (s *session) startWith(ctx context.Context, c stages.Command) error {
	e, _, err := s.engine(ctx, nil)
	if err != nil {
		return err
	}
	rec, err := s.record(ctx, e, s.name())
	if err != nil {
		return err
	}
	d, err := s.newDrive(ctx, e, s.name())
	if err != nil {
		return err
	}
	err = stages.Allowed(rec.Plan, rec.Run, c)
	if err == nil {
		err = e.Command(ctx, s.name(), c)
	} else if s.goesOn(rec.Run) && c.Verb == stages.Start {
		err = nil
	}
	if err != nil {
		return about(s.name(), err)
	}
	if s.given("no-wait") {
		return s.asked(ctx, e)
	}
	if err := d.do(ctx); errors.Is(err, errGone) {
		e, err = d.takeOver(ctx)
		if err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	return s.outcome(ctx, e)
}

// takeOver goes on where another process has driven that is gone.
func (d *drive) takeOver(ctx context.Context) (*fleet.Engine, error) {
	if err := d.s.store.again(ctx); err != nil {
		return nil, err
	}
	e, _, err := d.s.engine(ctx, nil)
	if err != nil {
		return nil, err
	}
	d.e = e
	if d.events, err = e.Follow(d.s.fleet(), d.events.Cursor()); err != nil {
		return nil, err
	}
	return e, d.do(ctx)
}

// goesOn reports whether a run was started and has no driver: start goes on with it.
func (s *session) goesOn(r *stages.Run) bool {
	return s.store.ours && (r.State == stages.Running || r.State == stages.Pending || r.State == stages.Stopping)
}

// about says which run was refused something.
func about(run string, err error) error {
	if refused, ok := errors.AsType[*stages.RefusedError](err); ok {
		return fmt.Errorf("update run %s: %w", run, refused)
	}
	return err
}

// outcome says what the run has come to, as an error where it has failed.
func (s *session) outcome(ctx context.Context, e *fleet.Engine) error {
	st, err := e.Status(ctx, s.name())
	if err != nil {
		return err
	}
	state := stages.Derive(st.Plan, &st.Run).Run
	switch state {
	case stages.Failed, stages.Aborted, stages.Superseded:
		return fmt.Errorf("update run %s is %s: %s", s.name(), state, st.Run.Reason)
	case stages.Running, stages.Pending, stages.NotStarted:
		var names []string
		for _, a := range stages.Waiting(st.Plan, &st.Run) {
			names = append(names, a.Name)
		}
		s.note("%s is %s and waits for %s", s.name(), state, strings.Join(names, ", "))
	default:
		s.note("%s is %s", s.name(), state)
	}
	return nil
}
