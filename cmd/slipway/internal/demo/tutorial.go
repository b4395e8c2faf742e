package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/watch"
)

// starter is who starts the runs. A real host names the person it authenticated.
const starter = "demo"

// tutorial is a host that embeds the engine.
type tutorial struct {
	docs    kubefleet.Documents
	config  *unstructured.Unstructured // the ConfigMap that is edited
	members *durable.Fleet
	source  *durable.Source
	engine  *fleet.Engine
	events  *fleet.Follower
	kept    *data
	show    printer
	current string // the run that is being played
	// ask asks a person for approval who sees lines, in is what one types who sees the run drawn. Neither is used
	// where an authority approves.
	ask     answerer
	in      io.Reader
	approve approval.Authority
	asked   map[approval.Binding]bool
}

// answerer answers a request that isOpen reports to be open; no verdict where that has changed. It is watch.Prompt.Ask.
type answerer func(ctx context.Context, p *stages.Plan, r *approval.Request, isOpen func() (bool, error)) (approval.Verdict, error)

// newTutorial makes the engine out of its seams. With another store, a hub cluster as source and real members, what
// follows stays as it is, but for the edit and showMembers: they play the people at the hub and at the members.
func newTutorial(ctx context.Context, docs kubefleet.Documents, kept *data, show printer, approve approval.Authority) (*tutorial, error) {
	t := &tutorial{docs: docs, kept: kept, show: show, approve: approve, members: durable.NewFleet(kept.outside), asked: map[approval.Binding]bool{}}
	i := slices.IndexFunc(docs.Objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "ConfigMap" })
	if i < 0 {
		return nil, errors.New("there is no ConfigMap among the files: the tutorial edits one")
	}
	t.config = docs.Objects[i].DeepCopy()
	slices.SortFunc(t.docs.Clusters, func(a, b placement.Cluster) int { return strings.Compare(a.Name, b.Name) })
	for _, c := range t.docs.Clusters {
		if err := t.members.Open(ctx, c); err != nil {
			return nil, err
		}
	}
	var err error
	if t.source, err = durable.OpenSource(ctx, kept.outside, docs.Objects...); err != nil {
		return nil, err
	}
	t.engine, err = fleet.New(fleet.Config{
		Store:     kept.engine, // where its state is kept
		Inventory: t.members,   // which clusters there are
		Dialer:    t.members,   // how they are reached
		Source:    t.source,    // what snapshots are taken of
		Authority: approve,     // what approves, where it is not a person
		Name:      "demo",
	})
	if err == nil {
		t.events, err = t.engine.Follow("", kept.mark.Cursor)
	}
	return t, err
}

// run plays the tutorial while the engine drives its runs in the background. Beside a file it answers other processes.
func (t *tutorial) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	background, running := errgroup.WithContext(ctx)
	background.Go(func() error { return t.engine.Run(running) })
	if t.kept.store != "" {
		background.Go(func() error { return httpapi.Serve(running, t.engine, httpapi.ServeOptions{Store: t.kept.store}) })
	}
	err := t.play(running)
	if running.Err() != nil {
		err = context.Cause(running)
	}
	cancel()
	_ = background.Wait()
	return err
}

// play is the tutorial: declare, take snapshots, roll out, roll back. Every step reads what there is and does what is
// missing, so that a process that was killed is followed by one that plays from the beginning.
func (t *tutorial) play(ctx context.Context) error {
	for _, p := range t.docs.Placements {
		if err := t.engine.PutPlacement(ctx, p); err != nil {
			return err
		}
	}
	latest, err := t.takeSnapshots(ctx)
	if err == nil && latest == 0 {
		if err = t.edit(ctx, "key", "value2"); err == nil {
			_, err = t.takeSnapshots(ctx)
		}
	}
	for i := 0; err == nil && i < len(t.docs.Runs); i++ {
		err = t.rollOut(ctx, t.docs.Runs[i].Name, t.docs.Runs[i+1:])
	}
	return err
}

// takeSnapshots freezes what every placement selects now, and returns the latest index. That makes no new snapshot
// where nothing has changed since the latest one.
func (t *tutorial) takeSnapshots(ctx context.Context) (latest int, err error) {
	for _, p := range t.docs.Placements {
		s, err := t.engine.Capture(ctx, p.Name)
		if err != nil {
			return 0, err
		}
		latest = max(latest, s.Index)
	}
	return latest, t.showPast(ctx)
}

// edit changes the ConfigMap in the source, as kubectl edit does on a hub.
func (t *tutorial) edit(ctx context.Context, key, value string) error {
	old, _, err := unstructured.NestedString(t.config.Object, "data", key)
	if err == nil {
		err = unstructured.SetNestedField(t.config.Object, value, "data", key)
	}
	if err == nil {
		err = t.source.Put(ctx, t.config.DeepCopy())
	}
	name := t.config.GetNamespace() + "/" + t.config.GetName()
	if err != nil {
		return fmt.Errorf("edit of ConfigMap %s: %w", name, err)
	}
	return t.show.note("edit of ConfigMap %s: %s was %s, is %s", name, key, old, value)
}

// rollOut plays one run: create it unless it is there, start it if that is left to the host, follow it to its end, and
// show what the members hold then, unless a later run is there already.
func (t *tutorial) rollOut(ctx context.Context, name string, later []kubefleet.Run) error {
	spec, err := t.docs.RunSpec(name)
	if err != nil {
		return err
	}
	spec.Starter = approval.Identity{Name: starter}
	found, err := t.engine.EnsureRun(ctx, spec)
	if errors.Is(err, backend.ErrConflict) { // the files are the same, so that only --wait differs
		if found, err = t.engine.Status(ctx, name); err == nil {
			err = t.show.note("run %s keeps the --wait that it was created with", name)
		}
	}
	if err != nil {
		return err
	}
	t.current = name
	if found.Run.State != stages.NotStarted {
		err = t.show.note("%s", watch.Summary(watch.Model{Status: found, Now: time.Now()}))
	} else if len(found.Plan.Warnings) > 0 {
		err = t.show.note("warning: %s", strings.Join(found.Plan.Warnings, "; "))
	}
	if err == nil && found.Run.Hold && found.Run.State == stages.NotStarted { // the file's state is Initialize or Stop
		start := stages.Command{ID: "start", Verb: stages.Start, By: spec.Starter}
		err = t.engine.Command(ctx, name, start) // with an ID, so that twice is once
	}
	if err == nil {
		err = t.follow(ctx, name)
	}
	if err != nil {
		return err
	}
	s, err := t.engine.Status(ctx, name)
	if err == nil && s.Run.IsEnded() {
		s, err = t.engine.Wait(ctx, name) // until the engine has seen to the end
	}
	if err == nil {
		err = t.showPast(ctx)
	}
	if err != nil {
		return err
	}
	for _, l := range later {
		if _, err := t.engine.Status(ctx, l.Name); !errors.Is(err, backend.ErrNotFound) {
			return err
		}
	}
	if err := t.showMembers(name); err != nil {
		return err
	}
	if s.Run.State != stages.Completed {
		return fmt.Errorf("run %s is %s: %s", name, s.Run.State, s.Run.Reason)
	}
	if isOver(&found) && len(later) == 0 {
		return t.show.note("everything was done already; a new directory begins again")
	}
	return nil
}

// follow shows the run until it is over.
func (t *tutorial) follow(ctx context.Context, run string) error {
	if !t.show.drawn {
		return t.followEvents(ctx, run)
	}
	options := watch.Options{Interval: 100 * time.Millisecond, Over: isOver, Forecast: func(ctx context.Context, run string) (time.Time, error) {
		f, err := t.engine.ForecastRun(ctx, run, fleet.Assumptions{Take: time.Second})
		return f.Ends, err
	}}
	if t.approve == nil {
		options.Decide = func(ctx context.Context, r approval.Request, v approval.Verdict) error {
			return t.engine.Decide(ctx, r.Run, answerTo(&r, v))
		}
	}
	_, err := watch.Run(ctx, t.engine, run, t.in, t.show.out, options)
	return err
}

// followEvents shows every event until the run is over. An event is only told once the state it belongs to is stored.
func (t *tutorial) followEvents(ctx context.Context, run string) error {
	s, err := t.engine.Status(ctx, run)
	if err == nil {
		err = t.showPast(ctx)
	}
	if err != nil || isOver(&s) {
		return err
	}
	if err := t.decide(ctx, run); err != nil { // what was asked may have been shown by an earlier process
		return err
	}
	return t.tell(ctx, t.events.Events(ctx), func(e *stages.Event) (bool, error) {
		if e.Run != run {
			return false, nil
		}
		if e.Type == stages.ApprovalRequested {
			return false, t.decide(ctx, run)
		}
		return slices.Contains([]stages.EventType{stages.RunCompleted, stages.RunFailed, stages.RunAborted, stages.RunSuperseded, stages.RunStopped}, e.Type), nil
	})
}

// showPast shows the events that were not shown yet.
func (t *tutorial) showPast(ctx context.Context) error {
	return t.tell(ctx, t.events.Past(ctx), func(*stages.Event) (bool, error) { return false, nil })
}

// tell shows events and remembers of each that it was shown, until one is the last.
func (t *tutorial) tell(ctx context.Context, events iter.Seq2[stages.Event, error], isLast func(*stages.Event) (bool, error)) error {
	for e, err := range events {
		if err == nil {
			err = t.show.event(e)
		}
		if err == nil {
			err = t.kept.printed(ctx, t.events.Cursor())
		}
		if err != nil {
			return err
		}
		if last, err := isLast(&e); last || err != nil {
			return err
		}
	}
	return ctx.Err()
}

// decide asks for an answer to the approval requests of a run that are open, once.
func (t *tutorial) decide(ctx context.Context, run string) error {
	s, err := t.engine.Status(ctx, run)
	if err != nil || t.approve != nil {
		return err
	}
	for _, r := range stages.Requests(s.Plan, &s.Run) {
		if t.asked[r.Binding] {
			continue
		}
		t.asked[r.Binding] = true
		verdict, err := t.ask(ctx, s.Plan, &r, func() (bool, error) {
			open, err := t.engine.Requests(ctx, run)
			return slices.ContainsFunc(open, func(q approval.Request) bool { return q.Binding == r.Binding }), err
		})
		if err == nil && verdict != "" {
			err = t.engine.Decide(ctx, run, answerTo(&r, verdict))
		}
		if errors.Is(err, backend.ErrNotFound) || err == nil && verdict == "" {
			err = t.show.note("request %s was answered before", r.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// answerTo is an answer that is bound to the request as it was shown: the engine refuses it for any other run, stage,
// plan or attempt. The ID makes it the same answer when a process that was killed has given it already.
func answerTo(r *approval.Request, v approval.Verdict) fleet.Answer {
	return fleet.Answer{
		Request: r.Name, Verdict: v, By: approval.Identity{Name: "you"}, Binding: r.Binding,
		ID: fmt.Sprintf("answer-%s-%d", r.Name, r.Attempt),
	}
}

// showMembers reads the ConfigMap from every member.
func (t *tutorial) showMembers(run string) error {
	for _, c := range t.docs.Clusters {
		m := Member{Time: time.Now().UTC().Truncate(time.Millisecond), Type: "Member", Run: run, Cluster: c.Name}
		obj, err := t.members.Cluster(c.Name).Get(snapshot.IDOf(t.config))
		switch {
		case err == nil:
			m.Data, _, _ = unstructured.NestedStringMap(obj.Object, "data")
		case !errors.Is(err, backend.ErrNotFound):
			return err
		}
		if err := t.show.member(m); err != nil {
			return err
		}
	}
	return nil
}

// isOver reports whether the tutorial does not wait for a run any more. A run that was stopped could be started again,
// but not here.
func isOver(s *fleet.Status) bool { return s.Run.IsEnded() || s.Run.State == stages.Stopped }
