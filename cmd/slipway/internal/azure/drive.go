package azure

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/runstate"
)

// run is an update run as it was read last, with all of its events.
type run struct {
	fleet.Status
	events []stages.Event
	next   int64 // number of the next event
}

// isGoing reports whether a run was started and is neither over nor stopped.
func isGoing(r run) bool {
	return slices.Contains([]stages.State{stages.Running, stages.Pending, stages.Stopping}, r.Run.State)
}

// find reads the runs and returns the one that is named.
func (s *session) find(ctx context.Context) (run, error) {
	if _, err := s.read(ctx); err != nil {
		return run{}, err
	}
	return s.named(s.name)
}

// named returns a run as it was read last.
func (s *session) named(name string) (run, error) {
	i := slices.IndexFunc(s.runs, func(r run) bool { return r.Run.Name == name })
	if i < 0 {
		return run{}, missing("update run", name)
	}
	return s.runs[i], nil
}

// read reads the runs of the fleet, and returns what has happened to them since they were read before, in the order in
// which it did. Where the process is gone that has driven them, it opens the store in its place, or reaches the next one.
func (s *session) read(ctx context.Context) ([]stages.Event, error) {
	runs, news, err := s.progress(ctx)
	answered, is := errors.AsType[*httpapi.Error](err)
	if err != nil && s.Live && ctx.Err() == nil && (!is || answered.Code >= http.StatusInternalServerError) {
		if err = errors.Join(s.Close(), s.open(ctx)); err == nil {
			runs, news, err = s.progress(ctx)
		}
	}
	if err != nil {
		return nil, err
	}
	s.runs = runs
	slices.SortStableFunc(news, func(a, b stages.Event) int { return a.Time.Compare(b.Time) })
	return news, nil
}

// progress returns the runs in the order in which they were made, and the events that were not read yet. The commands are
// listed first, so that one which is not among them shows in the runs.
func (s *session) progress(ctx context.Context) (runs []run, news []stages.Event, err error) {
	s.unsettled = false
	if !s.Live {
		for _, err := range s.Store.List(ctx, "command/") {
			if s.unsettled = true; err != nil {
				return nil, nil, err
			}
		}
	}
	summaries, err := s.RunSummaries(ctx, s.fleet)
	if errors.Is(err, backend.ErrNotFound) {
		return nil, nil, nil // no run was ever made
	}
	for _, summary := range summaries {
		r, _ := s.named(summary.Name)
		status, history, err := s.Progress(ctx, summary.Name, r.next)
		if errors.Is(err, backend.ErrNotFound) {
			continue // it was deleted just now
		}
		if err != nil {
			return nil, nil, err
		}
		runs = append(runs, run{status, append(r.events, history.Events...), history.Next})
		news = append(news, history.Events...)
	}
	return runs, news, err
}

// direct gives commands to the run. Start and retry go on with it, unless --no-wait is set. Others are carried out by the
// process that drives, or here where they start nothing; it says what became of them, and shows the run.
func (s *session) direct(ctx context.Context, commands ...stages.Command) error {
	r, err := s.find(ctx)
	if err != nil {
		return err
	}
	verb := commands[0].Verb
	goesOn := (verb == stages.Start || verb == stages.Retry) && s.text("no-wait") != "true"
	if goesOn && !s.Live && verb == stages.Start && isGoing(r) {
		commands = nil // it was started before
	}
	ids, err := s.ask(ctx, r, commands)
	if err != nil {
		return err
	}
	if goesOn {
		return s.goOn(ctx, ids)
	}
	became := "is recorded: it counts when updaterun start goes on with the run"
	if s.Live || verb == stages.Stop {
		became = "is carried out"
	}
	if s.Live || verb == stages.Stop || verb == stages.Skip && !slices.ContainsFunc(s.runs, isGoing) {
		if err := s.carryOut(ctx, ids, verb == stages.Stop); err != nil {
			return err
		}
	}
	for _, c := range commands {
		what := strings.TrimPrefix(string(c.Scope)+":"+c.Name, ":")
		s.note("updaterun/%s: %s %s", s.name, strings.TrimSpace(strings.ToLower(string(verb))+" "+what), became)
	}
	if r, err = s.named(s.name); err != nil {
		return err
	}
	return s.showRun(r)
}

// ask gives commands to the run, all or, where one does not fit, none, and returns their ids.
func (s *session) ask(ctx context.Context, r run, commands []stages.Command) (ids []string, err error) {
	for _, c := range commands {
		if refused := stages.Allowed(r.Plan, &r.Run, c); refused != nil && c.Verb != stages.Decide {
			err = errors.Join(err, fmt.Errorf("update run %s: %w", s.name, refused))
		}
	}
	for _, c := range commands {
		if err != nil {
			return nil, err
		}
		c.ID = strings.ToLower(rand.Text())
		if ids = append(ids, c.ID); c.Verb == stages.Decide {
			err = s.Decide(ctx, s.name, fleet.Answer{ID: c.ID, Request: c.Name, Verdict: approval.Approve})
		} else {
			err = s.Command(ctx, s.name, c)
		}
	}
	return ids, err
}

// carryOut waits until the run has taken in the commands with these ids and, where a stop is carried out here, has stopped.
func (s *session) carryOut(ctx context.Context, ids []string, stop bool) error {
	var refused error
	err := s.follow(ctx, func(news []stages.Event) (over bool) {
		for _, e := range news {
			if e.Type == stages.CommandRefused && e.Run == s.name {
				refused = errors.Join(refused, fmt.Errorf("update run %s: %s is refused: %s", s.name, e.Command, e.Message))
			}
		}
		r, _ := s.named(s.name)
		return s.settled(ids) && (s.Live || !stop || !isGoing(r))
	})
	return errors.Join(refused, err)
}

// goOn drives all runs, or follows this one where another process drives. It shows what happens, and what runs wait for
// that was not shown yet; with -o json only the events say that. It ends with what the run has come to.
func (s *session) goOn(ctx context.Context, ids []string) error {
	stream, said := s.NewStream(), map[string]bool{}
	show := func(e stages.Event) { _ = stream.Show(cli.Events(e)) } // what follows meets the same error
	err := s.follow(ctx, func(news []stages.Event) (over bool) {
		waits := []stages.EventType{stages.WaitStarted, stages.ApprovalRequested, stages.RunQueued}
		for _, e := range news {
			if s.IsValue() || !slices.Contains(waits, e.Type) {
				show(e)
			}
		}
		for _, r := range s.runs {
			for _, a := range stages.Waiting(r.Plan, &r.Run) {
				key := fmt.Sprint(r.Run.Name, a.Kind, a.Name, a.Until)
				_, cluster := r.Plan.Position(a.Name)
				if cluster || said[key] || a.Kind == stages.AwaitStart || s.IsValue() {
					continue // the events of clusters say that
				}
				said[key] = true
				show(stages.Event{Time: r.Run.Now.Time(), Type: "Waiting", Run: r.Run.Name, Message: waitsFor(r, a)})
			}
		}
		return s.settled(ids) && !slices.ContainsFunc(s.runs, s.moves)
	})
	if errors.Is(err, context.Canceled) {
		s.note("interrupted; everything is kept, and updaterun start goes on")
	}
	if err != nil {
		return err
	}
	r, err := s.named(s.name)
	if err != nil {
		return err
	}
	out := fmt.Sprintf("updaterun/%s: %s", s.name, s.updateRun(r).Status.Status.State)
	switch {
	case r.Run.IsEnded() && r.Run.State != stages.Completed && r.Run.State != stages.Skipped:
		return fmt.Errorf("%s: %s: %w", out, r.Run.Reason, cli.ErrUnsuccessful)
	case s.IsValue():
		s.note("%s", out)
		return nil
	}
	return s.Said("%s", out)
}

// interval is how often runs are read.
const interval = 100 * time.Millisecond

// follow calls tell with what happens to the runs, until that is over. Where the store is open here it drives them, also
// once the process is gone that has driven them.
func (s *session) follow(ctx context.Context, tell func(news []stages.Event) (over bool)) error {
	poll := func(ctx context.Context) error {
		for live := s.Live; s.Live == live; {
			news, err := s.read(ctx)
			if err != nil || tell(news) {
				return err
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(interval):
			}
		}
		return s.follow(ctx, tell)
	}
	if s.Live {
		return poll(ctx)
	}
	return target.Drive(ctx, s.Engine, s.path, poll)
}

// settled reports whether the run has taken in the commands with these ids and, where the store is open here, whether all
// runs have taken in what was asked of them.
func (s *session) settled(ids []string) bool {
	r, err := s.named(s.name)
	isOpen := func(id string) bool { return !slices.Contains(r.Run.Seen, id) }
	return err != nil || !s.unsettled && !slices.ContainsFunc(ids, isOpen)
}

// moves reports whether a run goes on by itself: it has not ended, and waits for more than people, or than runs that have
// not ended. Where another process drives, only the run that is named counts, and it waits for others.
func (s *session) moves(r run) bool {
	switch {
	case s.Live && r.Run.Name != s.name:
		return false
	case r.Run.State == stages.NotStarted:
		return !r.Run.Hold
	}
	waiting := stages.Waiting(r.Plan, &r.Run)
	for _, a := range waiting {
		other, err := s.named(a.Name)
		held := a.Kind == stages.AwaitStart || a.Kind == stages.AwaitDecision ||
			a.Kind == stages.AwaitRun && !s.Live && err == nil && !other.Run.IsEnded()
		if !held {
			return true
		}
	}
	return len(waiting) == 0 && isGoing(r)
}

// waitsFor says what a run waits for, until when, and what ends it before.
func waitsFor(r run, a stages.Awaited) string {
	out := "waits for " + strings.ToLower(string(a.Kind)) + " " + a.Name
	if !a.Until.IsZero() {
		out = fmt.Sprintf("waits %s, until %s, for %s", a.Until.Sub(r.Run.Now.Time()).Round(time.Second), cli.Cell(a.Until), a.Name)
	}
	if a.Kind != stages.AwaitRun {
		out += ": " + a.Message
	}
	switch {
	case a.Kind == stages.AwaitDecision || a.Message == runstate.ScheduledStartMessage:
		out += "; gate update --gate-name " + a.Name + " --state Completed completes it"
	case a.Kind == stages.AwaitTime:
		out += "; updaterun skip --targets AfterStageWait:" + a.Name + " ends it"
	}
	return out
}
