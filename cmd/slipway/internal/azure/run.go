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
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/formats/azure"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/runstate"
)

func runVerbs() []verb {
	return []verb{
		{
			use: "create", short: "Plan a run", needs: "name upgrade-type", writes: true, do: createRun,
			takes: "kubernetes-version node-image-selection node-images stages update-strategy-name speed preview",
		},
		{use: "start", short: "Start a run, or go on with it", needs: "name", takes: "no-wait", do: func(ctx context.Context, s *session) error {
			return s.direct(ctx, stages.Command{Verb: stages.Start})
		}},
		{use: "retry", short: "Try again what failed, or was skipped", needs: "name", takes: "only no-wait", do: func(ctx context.Context, s *session) error {
			return s.direct(ctx, stages.Command{Verb: stages.Retry, Only: stages.Only(s.text("only"))})
		}},
		{use: "stop", short: "Stop a run; what is in flight ends", needs: "name", do: func(ctx context.Context, s *session) error {
			return s.direct(ctx, stages.Command{Verb: stages.Stop})
		}},
		{use: "skip", short: "Skip members, groups, stages or the wait after a stage", needs: "name targets", do: func(ctx context.Context, s *session) error {
			var all []stages.Command
			for _, target := range s.list("targets") {
				c, err := azure.SkipOf(target)
				if err != nil {
					return err
				}
				all = append(all, c)
			}
			return s.direct(ctx, all...)
		}},
		{use: "list", short: "List the runs", do: listRuns},
		{use: "show", short: "Show a run", needs: "name", do: showRun},
		{use: "delete", short: "Delete a run", needs: "name", do: deleteRun},
	}
}

func createRun(ctx context.Context, s *session) error {
	strategy, err := s.stages()
	if err != nil {
		return err
	}
	if len(s.record.Members) == 0 {
		return fmt.Errorf("fleet %s has no members: begin with member create", s.fleet)
	}
	target := upgrade.Target{Type: upgrade.Type(s.text("upgrade-type")), KubernetesVersion: s.text("kubernetes-version")}
	target.NodeImages = upgrade.NodeImages{Selection: upgrade.Selection(s.text("node-image-selection")), Versions: s.list("node-images")}
	if wrong := target.Validate(nil).ToAggregate(); wrong != nil {
		return cli.UsageError{Err: errors.Join(wrong.Errors()...)}
	}
	if target, err = upgrade.ResolveFor(ctx, s.clusters, s.clusters, strategy, target); err != nil {
		return err
	}
	s.config.Source = upgrade.Source(s.fleet, target)
	e, err := fleet.New(s.config)
	if err != nil {
		return err
	}
	if err := e.PutPlacement(ctx, fleet.Placement{Name: s.fleet, Selectors: []snapshot.Selector{upgrade.Selector(s.fleet)}}); err != nil {
		return err
	}
	spec := fleet.RunSpec{Name: s.name, Owner: strategy.Name, Placement: s.fleet, Strategy: strategy, Hold: true}
	forecast, err := e.Forecast(ctx, spec, fleet.Assumptions{Take: 4 * time.Second})
	if err != nil {
		return err
	}
	for _, w := range forecast.Plan.Warnings {
		s.Warn("%s", strings.ReplaceAll(w, "clusters", "members"))
	}
	if s.text("preview") == "true" {
		end, typical := forecast.End.At.Round(time.Second), forecast.Typical.Round(time.Second)
		s.note("estimate: %s %s after its start, if a member of which nothing is known takes %s", forecast.End.State, end, typical)
		run := stages.NewRun(forecast.Plan, spec.Name, "preview", approval.Identity{}, true, time.Now())
		return s.printRun(s.updateRun(fleet.Status{Run: run, Plan: forecast.Plan, Owner: spec.Owner}, nil, target))
	}
	s.record.Targets[s.name] = target
	if err := s.clusters.save(); err != nil {
		return err
	}
	spec.Plan = forecast.Plan.Digest
	if _, err := e.CreateRun(ctx, spec); err != nil {
		return err
	}
	return showRun(ctx, s)
}

// updateRun returns a run as az shows it.
func (s *session) updateRun(st fleet.Status, events []stages.Event, target upgrade.Target) azure.UpdateRun {
	rec := azure.Record{Run: &st.Run, Plan: st.Plan, Events: events, Target: target, ResourceIDs: map[string]string{}}
	if st.Owner != "" {
		rec.StrategyID = s.id("updateStrategies", st.Owner)
	}
	for _, c := range st.Plan.Clusters {
		rec.ResourceIDs[c.Name] = c.UID
	}
	u := azure.NewUpdateRun(rec)
	u.ID, u.ResourceGroup = s.id("updateRuns", u.Name), s.group
	return u
}

// get reads a run, and returns it as az shows it too.
func (s *session) get(ctx context.Context, name string) (st fleet.Status, u azure.UpdateRun, err error) {
	err = s.again(ctx, func() error {
		var history fleet.History
		st, history, err = s.Progress(ctx, name, 0)
		if err == nil {
			u = s.updateRun(st, history.Events, s.record.Targets[name])
		}
		return err
	})
	if errors.Is(err, backend.ErrNotFound) {
		err = missing("update run", name)
	}
	return st, u, err
}

func showRun(ctx context.Context, s *session) error {
	_, u, err := s.get(ctx, s.name)
	if err != nil {
		return err
	}
	return s.printRun(u)
}

// all returns the runs of the fleet in the order in which they were made.
func (s *session) all(ctx context.Context) ([]fleet.RunSummary, error) {
	runs, err := s.RunSummaries(ctx, s.fleet)
	if errors.Is(err, backend.ErrNotFound) {
		return nil, nil // no run was ever made
	}
	return runs, err
}

func listRuns(ctx context.Context, s *session) error {
	all, err := s.all(ctx)
	if err != nil {
		return err
	}
	table := &cli.List{Kind: "updaterun", Columns: []string{"Name", "State", "Upgrade", "Version", "Images", "Failed"}, Narrow: 6}
	var runs []azure.UpdateRun
	for _, r := range all {
		_, u, err := s.get(ctx, r.Name)
		if err != nil {
			return err
		}
		target := s.record.Targets[r.Name]
		runs = append(runs, u)
		table.Add(u.Name, u, u.Status.Status.State, target.Type, target.KubernetesVersion, target.NodeImages.Selection, u.Status.FailureCount)
	}
	return show(s, runs, table)
}

func deleteRun(ctx context.Context, s *session) error {
	st, _, err := s.get(ctx, s.name)
	if err == nil && isGoing(st) {
		err = fmt.Errorf("update run %s is %s: stop it first", s.name, st.Run.State)
	}
	if err != nil {
		return err
	}
	return s.DeleteRun(ctx, s.name, fleet.DeleteRunOptions{Force: true})
}

// printRun shows a run, with a line for itself, each stage, gate, group, member and wait.
func (s *session) printRun(u azure.UpdateRun) error {
	table := &cli.List{Kind: "updaterun", Columns: []string{"Stage", "Group", "Member", "State", "Why"}, Narrow: 5}
	for p := range u.Parts {
		table.Add(p.Stage, nil, p.Group, p.Member, p.Status.State, p.Reason)
	}
	return show(s, []azure.UpdateRun{u}, table)
}

func gateVerbs() []verb {
	return []verb{
		{use: "list", short: "List the gates that a run has come to", needs: "name", do: listGates},
		{use: "update", short: "Complete a gate: approve, or end a scheduled start before its time", needs: "name gate-name state", do: updateGate},
	}
}

func listGates(ctx context.Context, s *session) error {
	_, u, err := s.get(ctx, s.name)
	if err != nil {
		return err
	}
	table := &cli.List{Kind: "gate", Columns: []string{"Gate", "Type", "State", "Stage", "Group", "Timing"}, Narrow: 6}
	gates := azure.FleetGates(u)
	for _, g := range gates {
		in := g.Target.Run
		table.Add(g.Name, nil, g.Type, g.State, in.Stage, text(in.Group), in.Timing)
	}
	return show(s, gates, table)
}

func updateGate(ctx context.Context, s *session) error {
	_, u, err := s.get(ctx, s.name)
	if err != nil {
		return err
	}
	name := s.text("gate-name")
	for _, g := range azure.FleetGates(u) {
		switch {
		case g.Name != name || g.State != string(stages.Pending):
		case g.Type == string(stages.ScheduledStart):
			return s.direct(ctx, stages.Command{Verb: stages.CompleteGate, Name: name})
		default:
			return s.direct(ctx, stages.Command{Verb: stages.Decide, Name: name})
		}
	}
	return fmt.Errorf("update run %s has no gate %s that is Pending: gate list shows which there are", s.name, name)
}

const (
	// patience is how long a process that drives may take to take in what it is asked.
	patience = 5 * time.Second
	// moment is how often runs are read.
	moment = 100 * time.Millisecond
)

// direct gives commands to the run. One that has the flag --no-wait, which is not set, goes on with the run. Others are
// carried out by the process that drives, or here where they start nothing; it says what became of them, and shows the
// run.
func (s *session) direct(ctx context.Context, commands ...stages.Command) error {
	all, _, err := s.news(ctx)
	if err != nil {
		return err
	}
	st, there := all[s.name]
	if !there {
		return missing("update run", s.name)
	}
	verb := commands[0].Verb
	stop, goesOn := verb == stages.Stop, s.flags.Lookup("no-wait") != nil && s.text("no-wait") != "true"
	if goesOn && !s.Live && verb == stages.Start && isGoing(st) {
		return s.goOn(ctx, nil) // it was started before
	}
	ids, err := s.ask(ctx, st, commands)
	if err != nil {
		return err
	}
	if goesOn {
		return s.goOn(ctx, ids)
	}
	resting, became := verb == stages.Skip, "is recorded: it counts when updaterun start goes on with the run"
	for _, st := range all {
		resting = resting && !isGoing(st)
	}
	if s.Live || stop {
		became = "is carried out"
	}
	if s.Live || stop || resting {
		if err := s.hear(ctx, ids, stop); err != nil {
			return err
		}
	}
	for _, c := range commands {
		what := strings.TrimPrefix(string(c.Scope)+":"+c.Name, ":")
		s.note("updaterun/%s: %s %s", s.name, strings.TrimSpace(strings.ToLower(string(verb))+" "+what), became)
	}
	return showRun(ctx, s)
}

// isGoing reports whether a run was started and is neither over nor stopped.
func isGoing(st fleet.Status) bool {
	return slices.Contains([]stages.State{stages.Running, stages.Pending, stages.Stopping}, st.Run.State)
}

// goOn drives all runs, or follows this one where another process drives. It shows what happens, and ends with what the
// run has come to.
func (s *session) goOn(ctx context.Context, ids []string) error {
	t := &teller{s, s.NewStream(), map[string]bool{}}
	err := s.follow(ctx, func(all map[string]fleet.Status, events []stages.Event) bool {
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
	out := fmt.Sprintf("updaterun/%s: %s", s.name, u.Status.Status.State)
	switch {
	case err != nil:
		return err
	case st.Run.State == stages.Failed || st.Run.State == stages.Aborted || st.Run.State == stages.Superseded:
		return fmt.Errorf("%s: %s: %w", out, st.Run.Reason, cli.ErrUnsuccessful)
	case s.IsValue():
		s.note("%s", out)
		return nil
	}
	return s.Said("%s", out)
}

// hear waits until the run has taken in the commands with these ids and, where the store is open here, has stopped.
func (s *session) hear(ctx context.Context, ids []string, stop bool) error {
	if s.Live {
		late := fmt.Errorf("update run %s: it is recorded, and the process that drives has not taken it in yet", s.name)
		var end context.CancelFunc
		ctx, end = context.WithTimeoutCause(ctx, patience, late)
		defer end()
	}
	var refused error
	err := s.follow(ctx, func(all map[string]fleet.Status, events []stages.Event) bool {
		for _, e := range events {
			if e.Type == stages.CommandRefused && e.Run == s.name {
				refused = errors.Join(refused, fmt.Errorf("update run %s: %s is refused: %s", s.name, e.Command, e.Message))
			}
		}
		return s.heard(ctx, all[s.name], ids) && (s.Live || !stop || quiet(all, all[s.name]))
	})
	return errors.Join(refused, err)
}

// ask gives commands to the run, all or, where one does not fit, none, and returns their ids.
func (s *session) ask(ctx context.Context, st fleet.Status, commands []stages.Command) (ids []string, err error) {
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

// follow reports the states of the runs and what has happened to them since it was told before, until that is over. Where the
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
		if a.Kind != stages.AwaitStart && a.Kind != stages.AwaitDecision && (a.Kind != stages.AwaitRun || !there || other.Run.IsEnded()) {
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
