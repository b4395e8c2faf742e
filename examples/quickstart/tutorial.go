package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// starter is who starts the runs. A real host names the person it
// authenticated.
const starter = "quickstart"

// tutorial is a host that embeds the engine.
type tutorial struct {
	docs    documents
	config  snapshot.ID // the ConfigMap that is edited
	members *durable.Fleet
	source  *durable.Source
	engine  *fleet.Engine
	events  *fleet.Follower
	kept    *data
	show    view
	answer  answerer
	// answered are the requests that this process has answered, by the IDs of
	// the answers.
	answered map[string]bool
	current  string // the run that is being played
}

// newTutorial makes the engine out of its seams. With another store, a hub
// cluster as source and real members, what follows stays as it is, but for edit
// and showMembers: they play the people at the hub and at the members.
func newTutorial(ctx context.Context, docs documents, kept *data, show view, answer answerer) (*tutorial, error) {
	t := &tutorial{docs: docs, kept: kept, show: show, answer: answer, answered: map[string]bool{}}
	i := slices.IndexFunc(docs.Objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "ConfigMap" })
	if i < 0 {
		return nil, errors.New("there is no ConfigMap among the files: the tutorial edits one")
	}
	t.config = snapshot.IDOf(docs.Objects[i])
	slices.SortFunc(t.docs.Clusters, func(a, b placement.Cluster) int { return cmp.Compare(a.Name, b.Name) })
	if err := t.createMembers(ctx); err != nil {
		return nil, err
	}
	var err error
	t.engine, err = fleet.New(fleet.Config{
		Store:     kept.engine, // where its state is kept
		Inventory: t.members,   // which clusters there are
		Dialer:    t.members,   // how they are reached
		Source:    t.source,    // what snapshots are taken of
		Name:      "quickstart",
	})
	if err != nil {
		return nil, err
	}
	t.events, err = t.engine.Follow("", t.seen())
	return t, err
}

// createMembers makes the hub and the members, or finds them as they were.
func (t *tutorial) createMembers(ctx context.Context) (err error) {
	t.members = durable.NewFleet(t.kept.outside)
	for _, c := range t.docs.Clusters {
		if err := t.members.Open(ctx, c); err != nil {
			return err
		}
	}
	t.source, err = durable.OpenSource(ctx, t.kept.outside, t.docs.Objects...)
	return err
}

// seen returns the cursor behind what was shown already.
func (t *tutorial) seen() string {
	if _, whole := t.show.(picture); whole {
		return ""
	}
	return t.kept.mark.Cursor
}

// run plays the tutorial while the engine drives its runs in the background.
func (t *tutorial) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		cancel(t.engine.Run(ctx))
	}()
	err := t.play(ctx)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	cancel(nil)
	select {
	case <-stopped:
	case <-time.After(500 * time.Millisecond): // Ctrl-C is not to wait
	}
	return err
}

// play is the tutorial: declare, take snapshots, roll out, roll back. Every
// step reads what there is and does what is missing, so that a process that
// was killed is followed by one that plays from the beginning.
func (t *tutorial) play(ctx context.Context) error {
	for _, p := range t.docs.Placements {
		if err := t.engine.PutPlacement(ctx, p); err != nil {
			return err
		}
	}
	if err := t.takeSnapshots(ctx); err != nil {
		return err
	}
	if err := t.edit(ctx, "key", "value2"); err != nil {
		return err
	}
	if err := t.takeSnapshots(ctx); err != nil {
		return err
	}
	for i, r := range t.docs.Runs {
		if err := t.rollOut(ctx, r.Name, t.docs.Runs[i+1:]); err != nil {
			return err
		}
	}
	return nil
}

// takeSnapshots freezes what every placement selects now. That makes no new
// snapshot where nothing has changed since the latest one.
func (t *tutorial) takeSnapshots(ctx context.Context) error {
	for _, p := range t.docs.Placements {
		if _, err := t.engine.Capture(ctx, p.Name); err != nil {
			return err
		}
	}
	return t.showPast(ctx)
}

// edit changes the ConfigMap in the source, as kubectl edit does on a hub.
func (t *tutorial) edit(ctx context.Context, key, value string) error {
	q := snapshot.Query{Group: t.config.Group, Version: t.config.Version, Kind: t.config.Kind, Namespace: t.config.Namespace, Name: t.config.Name}
	for found, err := range t.source.Objects(ctx, q) {
		if err != nil {
			return err
		}
		config := found.DeepCopy()
		old, _, err := unstructured.NestedString(config.Object, "data", key)
		if err == nil && old == value {
			return nil
		}
		if err == nil {
			err = unstructured.SetNestedField(config.Object, value, "data", key)
		}
		if err == nil {
			err = t.source.Put(ctx, config)
		}
		if err != nil {
			return fmt.Errorf("edit of ConfigMap %s: %w", t.config.Name, err)
		}
		return t.show.note(fmt.Sprintf("edit of ConfigMap %s/%s: %s was %s, is %s", t.config.Namespace, t.config.Name, key, old, value))
	}
	return fmt.Errorf("ConfigMap %s/%s is gone from the hub", t.config.Namespace, t.config.Name)
}

// rollOut plays one run: create it unless it is there, follow it to its end,
// and show what the members hold then, unless a later run is there already.
func (t *tutorial) rollOut(ctx context.Context, name string, later []kubefleet.Run) error {
	found, err := t.ensure(ctx, name)
	if err != nil {
		return err
	}
	t.current = name
	s, err := t.follow(ctx, name)
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
	if isOver(found) && len(later) == 0 {
		err = t.show.note("everything was done already; a new directory begins again")
	}
	if s.Run.State != stages.Completed {
		return fmt.Errorf("run %s is %s: %s", name, s.Run.State, s.Run.Reason)
	}
	return err
}

// ensure finds the run, or previews its plan and creates it; and starts it if
// that is left to the host.
func (t *tutorial) ensure(ctx context.Context, name string) (fleet.Status, error) {
	spec, err := t.docs.RunSpec(name)
	if err != nil {
		return fleet.Status{}, err
	}
	spec.Starter = approval.Identity{Name: starter}
	s, err := t.engine.Status(ctx, name)
	switch {
	case errors.Is(err, backend.ErrNotFound):
		s, err = t.create(ctx, spec)
	case err == nil:
		if err = differs(spec, s); err == nil {
			err = t.show.again(s)
		}
	}
	if err == nil && s.Run.Hold && s.Run.State == stages.NotStarted { // the file's state is Initialize or Stop
		start := stages.Command{ID: "start", Verb: stages.Start, By: spec.Starter}
		err = t.engine.Command(ctx, name, start) // with an ID, so that twice is once
	}
	return s, err
}

func (t *tutorial) create(ctx context.Context, spec fleet.RunSpec) (fleet.Status, error) {
	plan, err := t.engine.Preview(ctx, spec)
	if err != nil {
		return fleet.Status{}, err
	}
	if err := t.show.plan(spec.Name, plan); err != nil {
		return fleet.Status{}, err
	}
	spec.Plan = plan.Digest // what was shown is what is rolled out
	return t.engine.CreateRun(ctx, spec)
}

// differs refuses a run of that name that is another one.
func differs(spec fleet.RunSpec, s fleet.Status) error {
	if s.Run.Placement != spec.Placement || spec.Index != nil && *spec.Index != s.Plan.Index {
		return fmt.Errorf("there is another run %s, of snapshot %d of %s: delete it, or take a new directory", spec.Name, s.Plan.Index, s.Run.Placement)
	}
	return nil
}

// follow shows every event until the run is over, and returns how it ended. An
// event is only told once the state it belongs to is stored.
func (t *tutorial) follow(ctx context.Context, run string) (fleet.Status, error) {
	if err := t.showPast(ctx); err != nil {
		return fleet.Status{}, err
	}
	s, err := t.engine.Status(ctx, run)
	if err == nil && isOver(s) {
		return t.ended(ctx, run)
	}
	if err == nil {
		err = t.decide(ctx, run) // what was asked may have been shown by an earlier process
	}
	if err != nil {
		return s, err
	}
	for e, err := range t.events.Events(ctx) {
		if err == nil {
			err = t.told(ctx, e)
		}
		if err != nil {
			return s, err
		}
		if e.Run != run {
			continue
		}
		switch e.Type {
		case stages.ApprovalRequested:
			if err := t.decide(ctx, run); err != nil {
				return s, err
			}
		case stages.RunCompleted, stages.RunFailed, stages.RunAborted, stages.RunSuperseded, stages.RunStopped:
			return t.ended(ctx, run)
		}
	}
	return s, ctx.Err()
}

// ended returns how a run ended, after the engine has seen to that and told all
// about it.
func (t *tutorial) ended(ctx context.Context, run string) (fleet.Status, error) {
	s, err := t.engine.Status(ctx, run)
	if err == nil && s.Run.IsEnded() {
		s, err = t.engine.Wait(ctx, run)
	}
	if err == nil {
		err = t.showPast(ctx)
	}
	return s, err
}

// showPast shows the events that were not shown yet.
func (t *tutorial) showPast(ctx context.Context) error {
	for e, err := range t.events.Past(ctx) {
		if err == nil {
			err = t.told(ctx, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// told shows an event, and then remembers that it did.
func (t *tutorial) told(ctx context.Context, e stages.Event) error {
	_, whole := t.show.(picture)
	if err := t.show.event(e); err != nil || whole {
		return err
	}
	return t.kept.printed(ctx, t.events.Cursor())
}

// decide answers the approval requests of a run that are open. The engine binds
// an answer to this run, this stage and this plan, and refuses it anywhere
// else. The ID makes it the same answer when a process that was killed has
// given it already.
func (t *tutorial) decide(ctx context.Context, run string) error {
	open, err := t.engine.Requests(ctx, run)
	if err != nil {
		return err
	}
	for _, r := range open {
		id := fmt.Sprintf("answer-%s-%d", r.Name, r.Attempt)
		if t.answered[run+"/"+id] {
			continue
		}
		answer, err := t.answer(ctx, r.Name)
		if err != nil {
			return err
		}
		answer.ID, answer.Binding = id, r.Binding // what was shown is what is approved
		err = t.engine.Decide(ctx, run, answer)
		if errors.Is(err, backend.ErrNotFound) {
			err = t.show.note("request " + r.Name + " was answered before")
		}
		if err != nil {
			return err
		}
		t.answered[run+"/"+id] = true
	}
	return nil
}

// Member is what a cluster really holds after a run, read from the cluster.
type Member struct {
	Time time.Time `json:"time"`
	// Type is "Member".
	Type    string `json:"type"`
	Run     string `json:"run"`
	Cluster string `json:"cluster"`
	// Data is that of the ConfigMap; null if the cluster has none.
	Data map[string]string `json:"data"`
}

// showMembers reads the ConfigMap from every member.
func (t *tutorial) showMembers(run string) error {
	for _, c := range t.docs.Clusters {
		m := Member{Time: time.Now().UTC().Truncate(time.Millisecond), Type: "Member", Run: run, Cluster: c.Name}
		obj, err := t.members.Cluster(c.Name).Get(t.config)
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

// slowDown makes every call to a member take d, as a network would.
func (t *tutorial) slowDown(d time.Duration) {
	if d == 0 {
		return
	}
	for _, c := range t.docs.Clusters {
		t.members.SetDelay(c.Name, func() time.Duration { return d })
	}
}
