package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// starter is who starts the runs. A real host names the person it
// authenticated.
const starter = "quickstart"

// tutorial is a host that embeds the engine.
type tutorial struct {
	docs    kubefleet.Documents
	config  *unstructured.Unstructured // the ConfigMap that is edited
	members *memory.Fleet
	source  *memory.Source
	engine  *fleet.Engine
	events  *fleet.Follower
	show    view
	answer  answerer
	current string // the run that is being played
}

// newTutorial makes the engine out of its seams. Here they are all in memory;
// with a durable store, a hub cluster as source and real members, what follows
// stays as it is, but for edit and showMembers: they play the people at the hub
// and at the members.
func newTutorial(docs kubefleet.Documents, show view, answer answerer) (*tutorial, error) {
	t := &tutorial{docs: docs, show: show, answer: answer}
	i := slices.IndexFunc(docs.Objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "ConfigMap" })
	if i < 0 {
		return nil, errors.New("there is no ConfigMap among the files: the tutorial edits one")
	}
	t.config = docs.Objects[i].DeepCopy()
	slices.SortFunc(t.docs.Clusters, func(a, b placement.Cluster) int { return cmp.Compare(a.Name, b.Name) })
	t.members = memory.NewFleet(docs.Clusters...)
	t.source = memory.NewSource(docs.Objects...)
	var err error
	t.engine, err = fleet.New(fleet.Config{
		Store:     memory.NewStore(), // where its state is kept
		Inventory: t.members,         // which clusters there are
		Dialer:    t.members,         // how they are reached
		Source:    t.source,          // what snapshots are taken of
		Name:      "quickstart",
	})
	if err != nil {
		return nil, err
	}
	t.events, err = t.engine.Follow("", "")
	return t, err
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
	case <-time.After(500 * time.Millisecond): // somebody who presses Ctrl-C does not want to wait
	}
	return err
}

// play is the tutorial: declare, take snapshots, roll out, roll back.
func (t *tutorial) play(ctx context.Context) error {
	for _, p := range t.docs.Placements {
		if err := t.engine.PutPlacement(ctx, p); err != nil {
			return err
		}
	}
	if err := t.takeSnapshots(ctx); err != nil {
		return err
	}
	if err := t.edit("key", "value2"); err != nil {
		return err
	}
	if err := t.takeSnapshots(ctx); err != nil {
		return err
	}
	for _, r := range t.docs.Runs {
		if err := t.rollOut(ctx, r.Name); err != nil {
			return err
		}
	}
	return nil
}

// takeSnapshots freezes what every placement selects now.
func (t *tutorial) takeSnapshots(ctx context.Context) error {
	for _, p := range t.docs.Placements {
		if _, err := t.engine.Capture(ctx, p.Name); err != nil {
			return err
		}
	}
	for e, err := range t.events.Past(ctx) {
		if err == nil {
			err = t.show.event(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// edit changes the ConfigMap in the source, as kubectl edit does on a hub.
func (t *tutorial) edit(key, value string) error {
	old, _, err := unstructured.NestedString(t.config.Object, "data", key)
	if err == nil {
		err = unstructured.SetNestedField(t.config.Object, value, "data", key)
	}
	if err == nil {
		err = t.source.Put(t.config)
	}
	if err != nil {
		return fmt.Errorf("edit of ConfigMap %s: %w", t.config.GetName(), err)
	}
	return t.show.note(fmt.Sprintf("edit of ConfigMap %s/%s: %s was %s, is %s", t.config.GetNamespace(), t.config.GetName(), key, old, value))
}

// rollOut plays one run: preview its plan, create it, follow it to its end,
// and look at what the members hold then.
func (t *tutorial) rollOut(ctx context.Context, name string) error {
	spec, err := t.docs.RunSpec(name)
	if err != nil {
		return err
	}
	spec.Starter = approval.Identity{Name: starter}
	plan, err := t.engine.Preview(ctx, spec)
	if err != nil {
		return err
	}
	if err := t.show.plan(name, plan); err != nil {
		return err
	}
	spec.Plan = plan.Digest // what was shown is what is rolled out
	if _, err := t.engine.CreateRun(ctx, spec); err != nil {
		return err
	}
	t.current = name
	if spec.Hold { // the file's state is Initialize or Stop
		if err := t.engine.Command(ctx, name, stages.Command{Verb: stages.Start, By: spec.Starter}); err != nil {
			return err
		}
	}
	end, err := t.follow(ctx, name)
	if err != nil {
		return err
	}
	if err := t.showMembers(name); err != nil {
		return err
	}
	if end.Type != stages.RunCompleted {
		return fmt.Errorf("%s: %s: %s", end.Type, name, end.Message)
	}
	return nil
}

// follow shows every event until the run has ended, and returns the last. An
// event is only told once the state it belongs to is stored.
func (t *tutorial) follow(ctx context.Context, run string) (stages.Event, error) {
	for e, err := range t.events.Events(ctx) {
		if err == nil {
			err = t.show.event(e)
		}
		if err != nil {
			return e, err
		}
		if e.Run != run {
			continue
		}
		switch e.Type {
		case stages.ApprovalRequested:
			if err := t.decide(ctx, e); err != nil {
				return e, err
			}
		case stages.RunCompleted, stages.RunFailed, stages.RunAborted, stages.RunSuperseded, stages.RunStopped:
			return e, nil
		}
	}
	return stages.Event{}, ctx.Err()
}

// decide answers an approval request. The engine binds the answer to this run,
// this stage and this plan, and refuses it anywhere else.
func (t *tutorial) decide(ctx context.Context, e stages.Event) error {
	answer, err := t.answer(ctx, e.Request)
	if err != nil {
		return err
	}
	return t.engine.Decide(ctx, e.Run, answer)
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
	id := snapshot.IDOf(t.config)
	for _, c := range t.docs.Clusters {
		m := Member{Time: time.Now().UTC().Truncate(time.Millisecond), Type: "Member", Run: run, Cluster: c.Name}
		if obj, err := t.members.Cluster(c.Name).Get(id); err == nil {
			m.Data, _, _ = unstructured.NestedStringMap(obj.Object, "data")
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

// nothingLeft is what is said when no run was created.
const nothingLeft = "no run was created"

// left says what state the current run was left in. The engine need not run
// for that: it only reads the store.
func (t *tutorial) left() string {
	if t.current == "" {
		return nothingLeft
	}
	s, err := t.engine.Status(context.Background(), t.current)
	if err != nil {
		return err.Error()
	}
	out := fmt.Sprintf("run %s was left %s", s.Run.Name, s.Run.State)
	if s.Run.Stage < len(s.Plan.Stages) {
		out += " in stage " + s.Plan.Stages[s.Run.Stage].Name
	}
	done := 0
	for _, state := range stages.States(s.Plan, &s.Run) {
		if state == stages.Completed {
			done++
		}
	}
	out += fmt.Sprintf(", %d of %d clusters done", done, s.Plan.Len())
	if waits := awaited(stages.Waiting(s.Plan, &s.Run)); waits != "" {
		out += ", waiting for " + waits
	}
	return out + "; it was kept in memory and is gone"
}

// awaited names what a run waits for.
func awaited(list []stages.Awaited) string {
	var out []string
	for _, a := range list {
		switch a.Kind {
		case stages.AwaitTime:
			out = append(out, fmt.Sprintf("%s (%s, until %s)", a.Name, a.Message, clock(a.Until)))
		case stages.AwaitDecision:
			out = append(out, "approval "+a.Name)
		default:
			out = append(out, a.Name)
		}
	}
	return strings.Join(out, ", ")
}
