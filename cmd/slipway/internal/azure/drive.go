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

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/runstate"
)

// start gives a command after which the run goes on, and drives all runs, or follows this one where another process
// drives. It shows what happens, and ends with what the run has come to.
func (s *session) start(ctx context.Context, c stages.Command) error {
	if s.text("no-wait") == "true" {
		return s.send(ctx, c)
	}
	all, _, err := s.news(ctx)
	if err != nil {
		return err
	}
	var ids []string
	started := []stages.State{stages.Running, stages.Pending, stages.Stopping}
	if s.Live || c.Verb != stages.Start || !slices.Contains(started, all[s.name].Run.State) {
		ids, err = s.ask(ctx, all, c)
	} // else it was started before, and goes on
	if err != nil {
		return err
	}
	t := &teller{s, s.NewStream(), map[string]bool{}}
	err = s.follow(ctx, func(all map[string]fleet.Status, events []stages.Event) bool {
		t.tell(all, events)
		over := s.heard(ctx, all[s.name], ids)
		if s.Live {
			return over && quiet(nil, all[s.name])
		}
		for _, st := range all {
			over = over && quiet(all, st)
		}
		return over
	})
	if err != nil {
		return err
	}
	st, u, err := s.get(ctx, s.name)
	if err != nil {
		return err
	}
	out := fmt.Sprintf("updaterun/%s: %s", s.name, u.Status.Status.State)
	switch st.Run.State {
	case stages.Failed, stages.Aborted, stages.Superseded:
		return fmt.Errorf("%s: %s: %w", out, st.Run.Reason, cli.ErrUnsuccessful)
	default:
	}
	if s.IsValue() {
		s.note("%s", out)
		return nil
	}
	return s.Said("%s", out)
}

// patience is how long a process that drives may take to take in what it is asked.
const patience = 5 * time.Second

// send gives commands to the run, all or, where one does not fit, none, has them carried out by the process that
// drives, or here where they start nothing, says what became of them, and shows the run.
func (s *session) send(ctx context.Context, commands ...stages.Command) error {
	all, _, err := s.news(ctx)
	if err != nil {
		return err
	}
	ids, err := s.ask(ctx, all, commands...)
	if err != nil {
		return err
	}
	stop, resting, late := commands[0].Verb == stages.Stop, commands[0].Verb == stages.Skip, time.Now().Add(patience)
	for _, st := range all {
		resting = resting && (st.Run.State == stages.NotStarted || st.Run.State == stages.Stopped || st.Run.IsEnded())
	}
	became := "is recorded: no process drives, and the next updaterun start carries it out"
	if s.Live || stop || resting {
		var refused error
		err := s.follow(ctx, func(all map[string]fleet.Status, events []stages.Event) bool {
			for _, e := range events {
				if e.Type == stages.CommandRefused && e.Run == s.name {
					refused = errors.Join(refused, fmt.Errorf("update run %s: %s is refused: %s", s.name, e.Command, e.Message))
				}
			}
			switch st := all[s.name]; {
			case !s.heard(ctx, st, ids):
				became = "is recorded: the process that drives has not taken it in yet"
				return s.Live && time.Now().After(late)
			case resting:
				became = "is recorded: it counts when updaterun start goes on with the run"
				return true
			default:
				became = "is carried out"
				return s.Live || quiet(all, st)
			}
		})
		if err := errors.Join(refused, err); err != nil {
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

// ask gives commands to the run, all or, where one does not fit, none, and returns their ids.
func (s *session) ask(ctx context.Context, all map[string]fleet.Status, commands ...stages.Command) (ids []string, err error) {
	st, there := all[s.name]
	if !there {
		return nil, missing("update run", s.name)
	}
	for _, c := range commands {
		if refused := stages.Allowed(st.Plan, &st.Run, c); refused != nil && c.Verb != stages.Decide {
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

// moment is how often runs are read.
const moment = 100 * time.Millisecond

// follow tells how the runs are and what has happened to them since it was told before, until that is over. Where the
// store is open here it drives the runs and serves them, also once the process is gone that has driven them.
func (s *session) follow(ctx context.Context, tell func(map[string]fleet.Status, []stages.Event) (over bool)) error {
	ctx, end := context.WithCancelCause(ctx)
	var driving sync.WaitGroup
	defer driving.Wait()
	defer end(nil)
	for drives := false; ; {
		if !s.Live && !drives {
			drives = true
			driving.Go(func() { end(s.Engine.Run(ctx)) })
			driving.Go(func() { end(httpapi.Serve(ctx, s.Engine, httpapi.ServeOptions{Store: s.path})) })
		}
		all, events, err := s.news(ctx)
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
			if errors.Is(err, context.Canceled) {
				s.note("interrupted; everything is kept, and updaterun start goes on")
			}
			return err
		case err != nil || tell(all, events):
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(moment):
		}
	}
}

// again calls read. Where the process is gone that has driven the runs, it opens the store in its place, or reaches the
// next one, and calls read again.
func (s *session) again(ctx context.Context, read func() error) error {
	err := read()
	answered, is := errors.AsType[*httpapi.Error](err)
	if err == nil || !s.Live || ctx.Err() != nil || is && answered.Code < http.StatusInternalServerError {
		return err
	}
	if err := errors.Join(s.Close(), s.open(ctx)); err != nil {
		return err
	}
	return read()
}

// news returns how the runs of the fleet are, and what has happened to them since the last call, in the order in which
// it did.
func (s *session) news(ctx context.Context) (all map[string]fleet.Status, events []stages.Event, err error) {
	err = s.again(ctx, func() error {
		runs, err := s.all(ctx)
		all = map[string]fleet.Status{}
		for _, r := range runs {
			st, h, err := s.Progress(ctx, r.Name, s.seen[r.Name])
			if errors.Is(err, backend.ErrNotFound) {
				continue // it was deleted just now
			}
			if err != nil {
				return err
			}
			all[r.Name], s.seen[r.Name], events = st, h.Next, append(events, h.Events...)
		}
		return err
	})
	slices.SortStableFunc(events, func(a, b stages.Event) int { return a.Time.Compare(b.Time) })
	return all, events, err
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

// quiet reports whether a run has ended, or waits for nothing but people or others of the runs that are not over.
func quiet(all map[string]fleet.Status, st fleet.Status) bool {
	if st.Run.State == stages.NotStarted {
		return st.Run.Hold
	}
	waiting := stages.Waiting(st.Plan, &st.Run)
	for _, a := range waiting {
		other, there := all[a.Name]
		if a.Kind != stages.AwaitStart && a.Kind != stages.AwaitDecision && !(a.Kind == stages.AwaitRun && there && !other.Run.IsEnded()) {
			return false
		}
	}
	return len(waiting) > 0 || st.Run.State != stages.Running && st.Run.State != stages.Stopping
}

// teller shows events as they happen, in the shape of those of history, and on the way what runs wait for.
type teller struct {
	*session
	stream *cli.Stream
	// said is what was said that runs wait for.
	said map[string]bool
}

// tell shows events, and what runs wait for that was not shown yet. With -o json only the events say that.
func (t *teller) tell(all map[string]fleet.Status, events []stages.Event) {
	for _, e := range events {
		if waits := e.Type == stages.WaitStarted || e.Type == stages.ApprovalRequested || e.Type == stages.RunQueued; !waits || t.IsValue() {
			t.show(e)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		st := all[name]
		for _, a := range stages.Waiting(st.Plan, &st.Run) {
			key := fmt.Sprint(name, a.Kind, a.Name, a.Until)
			_, cluster := st.Plan.Position(a.Name)
			if cluster || t.said[key] || a.Kind == stages.AwaitStart || t.IsValue() {
				continue // the events of clusters say that
			}
			t.said[key] = true
			t.show(stages.Event{Time: st.Run.Now.Time(), Type: "Waiting", Run: name, Message: waitsFor(st, a)})
		}
	}
}

func (t *teller) show(e stages.Event) {
	l := &cli.List{Kind: "event", Columns: []string{"Time", "Type", "Run", "Stage", "Cluster", "By", "Message"}, Narrow: 7}
	l.Add(cli.Cell(e.Time), e, e.Type, e.Run, e.Stage, e.Cluster, e.By, e.Message)
	_ = t.stream.Show(l) // what follows meets the same error
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
	case a.Kind == stages.AwaitDecision || a.Message == runstate.ScheduledStartMessage:
		out += "; gate update --gate-name " + a.Name + " --state Completed completes it"
	case a.Kind == stages.AwaitTime:
		out += "; updaterun skip --targets AfterStageWait:" + a.Name + " ends it"
	}
	return out
}
