package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
	"github.com/slipway-dev/slipway/watch"
)

// starter is the identity that starts the runs. A real host uses the authenticated person.
const starter = "demo"

// cursorKey is the record with the cursor after the last displayed event. It is the only state of
// the program, because the progress of the tutorial follows from existing objects.
const cursorKey = "demo/cursor"

// tutorial is a host that embeds the engine.
type tutorial struct {
	docs    kubefleet.Documents
	config  *unstructured.Unstructured // the ConfigMap that is edited
	members *durable.Fleet
	source  *durable.Source
	engine  *fleet.Engine
	events  *fleet.Follower
	store   backend.Store
	cursor  backend.Revision // of the record of the cursor
	show    *printer
	current string // run in progress
	// prompt asks a person for approval in lines; nil if an authority approves.
	prompt *watch.Prompt
	// leave describes the effect of q while a run is drawn.
	leave string
}

// newTutorial makes the engine from its parts. With another store, a hub cluster as source and
// real members, the rest of this file stays the same, except for edit and showMembers, which
// stand for the people at the hub and at the members. If the store is shared, other processes
// drive its runs, too.
func newTutorial(ctx context.Context, docs kubefleet.Documents, store backend.Store, shared bool, approve approval.Authority, measures *target.Measures) (*tutorial, error) {
	t := &tutorial{docs: docs, store: store, members: durable.NewFleet(store)}
	t.members.Shared = shared
	i := slices.IndexFunc(docs.Objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "ConfigMap" })
	if i < 0 {
		return nil, errors.New("there is no ConfigMap among the files: the tutorial edits one")
	}
	t.config = docs.Objects[i].DeepCopy()
	if err := t.members.Open(ctx, docs.Clusters...); err != nil {
		return nil, err
	}
	cursor, err := store.Get(ctx, cursorKey)
	if err != nil && !errors.Is(err, backend.ErrNotFound) {
		return nil, err
	}
	t.cursor = cursor.Revision
	if t.source, err = durable.OpenSource(ctx, store, docs.Objects...); err != nil {
		return nil, err
	}
	cfg := fleet.Config{
		Store:     store,     // where its state is kept
		Inventory: t.members, // which clusters there are
		Dialer:    t.members, // how they are reached
		Source:    t.source,  // the source of snapshots
		Authority: approve,   // approves, unless a person does
		Name:      "demo",
	}
	if shared {
		cfg.Name = "" // a random one
	}
	if err := measures.Configure(&cfg); err != nil { // health, and measurements of checks
		return nil, err
	}
	if t.engine, err = fleet.New(cfg); err == nil {
		t.events, err = t.engine.Follow(string(cursor.Value))
	}
	return t, err
}

// Connect completes the configuration of an engine by the members of the tutorial, which are kept
// in its store, and by its authority.
func Connect(c *fleet.Config) error {
	docs, err := documents("")
	members := durable.NewFleet(c.Store)
	members.Shared, c.Inventory, c.Dialer, c.Authority = true, members, members, approval.Func((&flags{}).approveSoon)
	return cmp.Or(err, members.Open(context.Background(), docs.Clusters...))
}

// play is the tutorial: declare, take snapshots, roll out, roll back. Every step reads the
// existing state and does the missing work, so that after a killed process another one can play
// from the beginning.
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
		err = t.rollOut(ctx, t.docs.Runs[i].Name)
	}
	return err
}

// takeSnapshots freezes the current selection of every placement, and returns the latest index.
// It makes no new snapshot if nothing has changed since the latest one.
func (t *tutorial) takeSnapshots(ctx context.Context) (latest int, err error) {
	for _, p := range t.docs.Placements {
		s, err := t.engine.Placement(p.Name).Capture(ctx)
		if err != nil {
			return 0, err
		}
		latest = max(latest, s.Index)
	}
	return latest, t.showPast(ctx)
}

// edit changes the ConfigMap in the source, like kubectl edit on a hub.
func (t *tutorial) edit(ctx context.Context, key, value string) error {
	old, _, err := unstructured.NestedString(t.config.Object, "data", key)
	if err == nil {
		err = unstructured.SetNestedField(t.config.Object, value, "data", key)
	}
	if err == nil {
		err = t.source.Put(ctx, t.config)
	}
	if err == nil {
		t.show.note("edit of ConfigMap %s/%s: %s was %s, is %s", t.config.GetNamespace(), t.config.GetName(), key, old, value)
	}
	return err
}

// rollOut performs one run: it creates the run unless it exists, starts it if that is left to the
// host, follows it to its end and the end of its rollback, and then shows the content of the
// members, unless a later run exists already. A run that did not complete, or was rolled back, is
// an error.
func (t *tutorial) rollOut(ctx context.Context, name string) error {
	spec, err := t.docs.RunSpec(name)
	if err != nil {
		return err
	}
	spec.Starter = approval.Identity{Name: starter}
	s, err := t.engine.EnsureRun(ctx, spec)
	if errors.Is(err, backend.ErrConflict) { // an earlier process had another --wait, or other files
		t.show.note("run %s continues as it was created, with the --wait and the files of its creation", name)
		s, err = t.engine.Run(name).Status(ctx)
	}
	if err != nil {
		return err
	}
	t.current = name
	if s.Run.State != stages.NotStarted {
		t.show.note("%s", t.left(ctx))
	} else if len(s.Plan.Warnings) > 0 {
		t.show.note("warning: %s", strings.Join(s.Plan.Warnings, "; "))
	}
	if s.Run.Hold && s.Run.State == stages.NotStarted { // the file's state is Initialize or Stop
		start := stages.Command{ID: "start", Verb: stages.Start, By: spec.Starter}
		err = t.engine.Run(name).Command(ctx, start) // with an ID, so it counts once
	}
	if err == nil {
		err = t.follow(ctx, name)
	}
	if err == nil {
		s, err = t.engine.Run(name).Wait(ctx) // until the engine has finished
	}
	if err == nil {
		err = t.showPast(ctx)
	}
	if err != nil {
		return err
	}
	back, err := t.engine.Run(name).RollbackStatus(ctx)
	if err != nil {
		return err
	}
	runs, err := t.engine.Placement(spec.Placement).RunNames(ctx)
	if err != nil {
		return err
	}
	if latest := runs[len(runs)-1]; latest == name || latest == back.By {
		if err := t.showMembers(ctx, latest); err != nil {
			return err
		}
	}
	return outcome(&s.Run, &back)
}

// outcome returns an error if a run, which has ended, did not complete or was rolled back.
func outcome(run *step.Run, back *fleet.Rollback) error {
	rollback := cli.RollbackText(back)
	if run.State == stages.Completed && rollback == "" {
		return nil
	}
	return cli.Unsuccessful(run.Name, run.State, run.Reason, rollback)
}

// left describes the progress of the current run.
func (t *tutorial) left(ctx context.Context) string {
	if t.current == "" {
		return "no run was created"
	}
	s, err := t.engine.Run(t.current).Status(ctx)
	if err != nil {
		return err.Error()
	}
	return watch.Summary(watch.Model{Status: s, Now: time.Now()})
}

// follow shows a run until it has ended: drawn, or by its events.
func (t *tutorial) follow(ctx context.Context, run string) error {
	if t.show.drawn {
		options := watch.Options{Interval: 100 * time.Millisecond, Left: t.leave, Forecast: func(ctx context.Context, run string) (time.Time, error) {
			f, err := t.engine.Run(run).Forecast(ctx, fleet.Assumptions{Take: metav1.Duration{Duration: time.Second}})
			return f.Ends, err
		}}
		if t.prompt != nil {
			options.Decide = t.decide
		}
		_, err := watch.Run(ctx, t.engine, run, t.show.In, t.show.Out, options)
		return err
	}
	f, err := t.engine.Run(run).Follow("")
	if err != nil {
		return err
	}
	// The event of an open request is shown before the question, and so are events while a person
	// is asked.
	status := func(ctx context.Context) (fleet.Status, error) {
		s, err := t.engine.Run(run).Status(ctx)
		return s, errors.Join(err, t.showPast(ctx))
	}
	for _, err := range f.Events(ctx) {
		if err == nil && t.prompt != nil {
			err = t.prompt.Answer(ctx, status, t.decide)
		} else if err == nil {
			err = t.showPast(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// showPast shows new events, and records the cursor after each. An event is only reported after
// its state is stored. None is lost: after a process was killed in between, an event is shown
// twice.
func (t *tutorial) showPast(ctx context.Context) error {
	for e, err := range t.events.Past(ctx) {
		if err == nil {
			err = t.show.event(e)
		}
		if err == nil {
			t.cursor, err = t.store.Put(context.WithoutCancel(ctx), cursorKey, []byte(t.events.Cursor()), t.cursor)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// decide passes on the answer of a person. It is bound to the displayed request: the engine
// refuses it for any other run, stage, plan or attempt. The ID identifies the answer if a killed
// process has already given it.
func (t *tutorial) decide(ctx context.Context, r approval.Request, v approval.Verdict) error {
	return t.engine.Run(r.Run).Command(ctx, stages.Command{
		Verb: stages.Decide, ID: fmt.Sprintf("answer-%s-%d", r.Name, r.Attempt), Name: r.Name, By: approval.Identity{Name: "you"}, Decision: &approval.Decision{Verdict: v, Binding: r.Binding},
	})
}

// showMembers reads the ConfigMap from every member.
func (t *tutorial) showMembers(ctx context.Context, run string) error {
	for _, c := range t.docs.Clusters {
		m := Member{Time: time.Now().UTC().Truncate(time.Millisecond), Type: "Member", Run: run, Cluster: c.Name}
		conn, err := t.members.Dial(ctx, c)
		if err != nil {
			return err
		}
		obj, err := conn.Get(ctx, snapshot.IDOf(t.config))
		if err == nil {
			m.Data, _, err = unstructured.NestedStringMap(obj.Object, "data")
		}
		if err != nil && !errors.Is(err, backend.ErrNotFound) {
			return err
		}
		t.show.member(m)
	}
	return t.show.err
}
