package azure

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/runstate"
)

// start gives a command after which the run goes on, and drives it, or follows it where another process drives.
func (s *session) start(ctx context.Context, c stages.Command) error {
	all, err := s.news(ctx, nil)
	if err != nil {
		return err
	}
	var ids []string
	switch state := all[s.name].Run.State; {
	case !s.Live && c.Verb == stages.Start && (state == stages.Running || state == stages.Pending || state == stages.Stopping):
		// It was started before, and goes on.
	default:
		if ids, err = s.ask(ctx, all, c); err != nil {
			return err
		}
	}
	if s.text("no-wait") == "true" {
		return s.carriedOut(ctx, all, ids, c)
	}
	t := &teller{s, s.NewStream(), map[string]bool{}}
	err = s.follow(ctx, t.event, func(all map[string]fleet.Status) bool {
		t.waits(all)
		over := s.heard(ctx, all[s.name], ids)
		if s.Live {
			return over && quiet(all, all[s.name]) && all[s.name].Run.State != stages.Pending
		}
		for _, st := range all {
			over = over && quiet(all, st)
		}
		return over
	})
	if err != nil {
		return err
	}
	return s.outcome(ctx)
}

// outcome says what the run has come to, as an error where it has failed.
func (s *session) outcome(ctx context.Context) error {
	st, u, err := s.get(ctx, s.name)
	if err != nil {
		return err
	}
	out := fmt.Sprintf("updaterun/%s: %s", s.name, u.Status.Status.State)
	switch st.Run.State {
	case stages.Failed, stages.Aborted, stages.Superseded:
		return fmt.Errorf("%s: %s: %w", out, st.Run.Reason, cli.ErrUnsuccessful)
	case stages.Running, stages.Pending, stages.NotStarted:
		for _, a := range stages.Waiting(st.Plan, &st.Run) {
			out += ", " + waitsFor(st, a)
		}
	default:
	}
	if s.IsValue() {
		s.note("%s", out)
		return nil
	}
	return s.Said("%s", out)
}

// send gives commands to the run, all or, where one does not fit, none, has them carried out and shows the run.
func (s *session) send(ctx context.Context, commands ...stages.Command) error {
	all, err := s.news(ctx, nil)
	if err != nil {
		return err
	}
	ids, err := s.ask(ctx, all, commands...)
	if err != nil {
		return err
	}
	return s.carriedOut(ctx, all, ids, commands...)
}

// ask gives commands to the run, all or, where one does not fit, none, and returns their ids.
func (s *session) ask(ctx context.Context, all map[string]fleet.Status, commands ...stages.Command) (ids []string, err error) {
	st, there := all[s.name]
	if !there {
		return nil, missing("update run", s.name)
	}
	var problems []error
	for _, c := range commands {
		if err := stages.Allowed(st.Plan, &st.Run, c); err != nil {
			problems = append(problems, fmt.Errorf("update run %s: %w", s.name, err))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	for _, c := range commands {
		c.ID = newID()
		if err := s.Command(ctx, s.name, c); err != nil {
			return nil, err
		}
		ids = append(ids, c.ID)
	}
	return ids, nil
}

func newID() string { return strings.ToLower(rand.Text()) }

// carriedOut has commands carried out by the process that drives, or here where they start nothing, says what became
// of them, and shows the run.
func (s *session) carriedOut(ctx context.Context, all map[string]fleet.Status, ids []string, commands ...stages.Command) error {
	resting := commands[0].Verb == stages.Skip
	for _, st := range all {
		resting = resting && (st.Run.State == stages.NotStarted || st.Run.State == stages.Stopped || st.Run.IsEnded())
	}
	stop, given := commands[0].Verb == stages.Stop, time.Now()
	became := "is recorded: no process drives, and the next updaterun start carries it out"
	if s.Live || stop || resting {
		var refused []error
		tell := func(e stages.Event) {
			if e.Type == stages.CommandRefused && e.Run == s.name {
				refused = append(refused, fmt.Errorf("update run %s: %s is refused: %s", s.name, e.Command, e.Message))
			}
		}
		err := s.follow(ctx, tell, func(all map[string]fleet.Status) bool {
			st := all[s.name]
			switch {
			case !s.heard(ctx, st, ids):
				became = "is recorded: the process that drives has not taken it in yet"
				return s.Live && time.Since(given) > patience
			case resting:
				became = "is recorded: it counts when updaterun start goes on with the run"
			default:
				became = "is carried out"
			}
			return s.Live || !stop || quiet(all, st)
		})
		if err := errors.Join(append(refused, err)...); err != nil {
			return err
		}
	}
	for _, c := range commands {
		what := strings.ToLower(string(c.Verb)) + " " + c.Name
		if c.Scope != "" {
			what = "skip " + string(c.Scope) + ":" + c.Name
		}
		s.note("updaterun/%s: %s %s", s.name, strings.TrimSpace(what), became)
	}
	return showRun(ctx, s)
}

const (
	// patience is how long a process that drives may take to take in what it is asked.
	patience = 5 * time.Second
	// moment is how often runs are read.
	moment = 100 * time.Millisecond
)

// follow tells what happens to the runs until it is over. Where the store is open here it drives the runs and serves
// them; where the process that has driven them is gone, it takes its place.
func (s *session) follow(ctx context.Context, tell func(stages.Event), over func(map[string]fleet.Status) bool) error {
	outer := ctx
	ctx, end := context.WithCancelCause(ctx)
	var driving sync.WaitGroup
	defer driving.Wait()
	defer end(nil)
	drive := func() error {
		if s.Live {
			return nil
		}
		e, err := fleet.New(s.config)
		if err == nil {
			driving.Go(func() { end(e.Run(ctx)) })
			driving.Go(func() { end(httpapi.Serve(ctx, e, httpapi.ServeOptions{Store: s.path})) })
		}
		return err
	}
	err := drive()
	for err == nil {
		var all map[string]fleet.Status
		switch all, err = s.news(ctx, tell); {
		case errors.Is(outer.Err(), context.Canceled):
			s.note("interrupted; everything is kept, and updaterun start goes on")
			return outer.Err()
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case s.isGone(err):
			if err = s.reopen(ctx); err == nil {
				err = drive()
			}
		case err == nil && over(all):
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(moment):
		}
	}
	return err
}

// isGone reports whether an error says that the process is gone that has driven the runs.
func (s *session) isGone(err error) bool {
	answered, is := errors.AsType[*httpapi.Error](err)
	return err != nil && s.Live && (!is || answered.Code >= http.StatusInternalServerError)
}

// reopen opens the store in the place of the process that is gone, or reaches the next one.
func (s *session) reopen(ctx context.Context) error { return errors.Join(s.Close(), s.open(ctx)) }

// news tells what has happened to the runs of the fleet since the last call, in the order in which it did, and returns
// how they are.
func (s *session) news(ctx context.Context, tell func(stages.Event)) (map[string]fleet.Status, error) {
	runs, err := s.all(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]fleet.Status{}
	var events []stages.Event
	for _, r := range runs {
		st, h, err := s.Progress(ctx, r.Name, s.seen[r.Name])
		if errors.Is(err, backend.ErrNotFound) {
			continue // it was deleted just now
		}
		if err != nil {
			return nil, err
		}
		all[r.Name], s.seen[r.Name], events = st, h.Next, append(events, h.Events...)
	}
	slices.SortStableFunc(events, func(a, b stages.Event) int { return a.Time.Compare(b.Time) })
	for _, e := range events {
		if tell != nil {
			tell(e)
		}
	}
	return all, nil
}

// heard reports whether a run has taken in the commands with these ids and, where the store is open here, whether all
// runs have taken in what was asked of them.
func (s *session) heard(ctx context.Context, st fleet.Status, ids []string) bool {
	if !s.Live {
		for range s.config.Store.List(ctx, "command/") {
			return false
		}
	}
	return !slices.ContainsFunc(ids, func(id string) bool { return !slices.Contains(st.Run.Seen, id) })
}

// quiet reports whether a run waits for nothing but people, or for another run that is not over.
func quiet(all map[string]fleet.Status, st fleet.Status) bool {
	waiting := stages.Waiting(st.Plan, &st.Run)
	switch st.Run.State {
	case stages.NotStarted:
		return st.Run.Hold
	case stages.Pending:
		if len(waiting) == 0 {
			return false
		}
		other, there := all[waiting[0].Name]
		return there && !other.Run.IsEnded()
	case stages.Running:
		return len(waiting) > 0 && !slices.ContainsFunc(waiting, func(a stages.Awaited) bool { return a.Kind != stages.AwaitDecision })
	default:
		return st.Run.State != stages.Stopping
	}
}

// teller shows events as they happen, in the shape of those of history, and on the way what runs wait for.
type teller struct {
	*session
	stream *cli.Stream
	// said is what was said that runs wait for.
	said map[string]bool
}

// event shows an event. What a run waits for is shown by waits, or with -o json by the event.
func (t *teller) event(e stages.Event) {
	waits := e.Type == stages.WaitStarted || e.Type == stages.ApprovalRequested || e.Type == stages.RunQueued
	if !waits || t.IsValue() {
		t.show(e, e.Message)
	}
}

func (t *teller) show(e stages.Event, message string) {
	l := &cli.List{Kind: "event", Columns: []string{"Time", "Type", "Run", "Stage", "Cluster", "By", "Message"}, Narrow: 7}
	l.Add(cli.Cell(e.Time), e, e.Type, e.Run, e.Stage, e.Cluster, e.By, message)
	_ = t.stream.Show(l) // what follows meets the same error
}

// waits shows what runs wait for that was not shown yet.
func (t *teller) waits(all map[string]fleet.Status) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		st := all[name]
		for _, a := range stages.Waiting(st.Plan, &st.Run) {
			key := fmt.Sprint(name, a.Kind, a.Name, a.Until)
			_, cluster := st.Plan.Position(a.Name)
			if cluster || t.said[key] || a.Kind == stages.AwaitStart || t.IsValue() {
				continue // the events of clusters say that
			}
			t.said[key] = true
			t.show(stages.Event{Time: st.Run.Now.Time(), Type: "Waiting", Run: name}, waitsFor(st, a))
		}
	}
}

// waitsFor says what a run waits for, until when, and what ends it before.
func waitsFor(st fleet.Status, a stages.Awaited) string {
	out := "waits for " + strings.ToLower(string(a.Kind)) + " " + a.Name
	if !a.Until.IsZero() {
		out = fmt.Sprintf("waits %s, until %s, for %s", a.Until.Sub(st.Run.Now.Time()).Round(time.Second), cli.Cell(a.Until), a.Name)
	}
	if a.Message != "" && a.Kind != stages.AwaitRun {
		out += ": " + a.Message
	}
	switch {
	case a.Kind == stages.AwaitDecision || a.Kind == stages.AwaitTime && a.Message == runstate.ScheduledStartMessage:
		out += "; gate update --gate-name " + a.Name + " --state Completed completes it"
	case a.Kind == stages.AwaitTime:
		out += "; updaterun skip --targets AfterStageWait:" + a.Name + " ends it"
	}
	return out
}
