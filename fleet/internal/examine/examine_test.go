package examine

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet/internal/content"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
	"github.com/slipway-dev/slipway/stages/planner"
	"github.com/slipway-dev/slipway/stages/step"
)

// rig is a store with a snapshot that has a check object, and the cluster c.
type rig struct {
	t        *testing.T
	store    *memory.Store
	fleet    *memory.Fleet
	contents *content.Store
	revision string

	mu       sync.Mutex
	answered []check.Measured
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, store: memory.NewStore(), fleet: memory.NewFleet(placement.Cluster{Name: "c"})}
	r.contents = content.New(r.store)
	set, err := snapshot.NewSet([]*unstructured.Unstructured{
		{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "n"}}},
		{Object: map[string]any{
			"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{"name": "smoke", "namespace": "n", "annotations": map[string]any{check.Annotation: "smoke"}},
		}},
	})
	if err == nil {
		err = r.contents.Save(t.Context(), "p", set, func(string) bool { return false })
	}
	if err == nil {
		err = r.fleet.Cluster("c").Update(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "n"}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	r.revision = set.Digest
	return r
}

// examiner runs an examiner until the test or end ends it.
func (r *rig) examiner() (e *Examiner, end func()) {
	s := state.New(state.Options{Store: r.store, Contents: r.contents, Inventory: r.fleet, Clock: time.Now, CallTimeout: time.Minute, Log: slog.New(slog.DiscardHandler)})
	conns := member.NewConns(r.fleet, time.Minute)
	e = New(Options{
		Store: r.store, State: s, Applier: member.NewApplier(conns, r.contents.Load, nil, member.Options{Timeout: time.Minute, Poll: time.Second}),
		Load: r.contents.Load, Limiter: member.NewLimiter(4), Poll: time.Second, Lease: 15 * time.Second, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(r.t.Context())
	var running sync.WaitGroup
	running.Go(func() { e.Run(ctx) })
	return e, func() {
		cancel()
		running.Wait()
		conns.Close()
	}
}

// run returns run r at an epoch.
func (r *rig) run(epoch int64) *Run {
	return &Run{Placement: "p", Name: "r", UID: "uid-r", Epoch: epoch, Answered: func(all []check.Measured) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.answered = append(r.answered, all...)
	}}
}

// recorded stores the record of run r in a state.
func (r *rig) recorded(s stages.State) {
	r.t.Helper()
	plan, err := planner.Plan(stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}}},
		stages.Target{Placement: "p", Snapshot: "s", Selection: "d", Default: r.revision}, []placement.Cluster{{Name: "c"}})
	if err != nil {
		r.t.Fatal(err)
	}
	rr := &record.Run{Run: step.NewRun(plan, "r", "uid-r", approval.Identity{}, false, time.Now()), Lease: record.Lease{Holder: "x", Epoch: 1}}
	rr.Run.State = s
	if _, err := r.store.Put(r.t.Context(), record.RunKey("r"), rr.Encode(), ""); err != nil {
		r.t.Fatal(err)
	}
}

// question returns the nth measurement.
func (r *rig) question(n int) []Question {
	return []Question{{
		Where: check.Where{Stage: "s", Name: "smoke", Cluster: "c", Number: n}, Object: "smoke", Revision: r.revision,
		Cluster: placement.Cluster{Name: "c", UID: r.fleet.Cluster("c").UID()},
	}}
}

// jobs returns the names of the Jobs on the cluster.
func (r *rig) jobs() (names []string) {
	for _, obj := range r.fleet.Cluster("c").List("n") {
		if obj.GetKind() == "Job" {
			names = append(names, obj.GetName())
		}
	}
	return names
}

// left returns everything that is left of checks: Jobs, ledgers and records.
func (r *rig) left() []string {
	out := r.jobs()
	for _, obj := range r.fleet.Cluster("c").List(member.LedgerNamespace) {
		if obj.GetKind() == "ConfigMap" {
			out = append(out, "ledger "+obj.GetName())
		}
	}
	return append(out, r.records()...)
}

func (r *rig) records() (keys []string) {
	for rec, err := range r.store.List(r.t.Context(), record.CheckObjectsPrefix) {
		if err != nil {
			r.t.Fatal(err)
		}
		keys = append(keys, rec.Key)
	}
	return keys
}

// ends ends the only Job with a condition.
func (r *rig) ends(condition string) {
	r.t.Helper()
	names := r.jobs()
	if len(names) != 1 {
		r.t.Fatalf("the cluster has Jobs %q", names)
	}
	id := snapshot.ID{Group: "batch", Version: "v1", Kind: "Job", Namespace: "n", Name: names[0]}
	if err := r.fleet.Cluster("c").SetStatus(id, map[string]any{"startTime": "2020-01-01T00:00:00Z", "conditions": []any{
		map[string]any{"type": condition, "status": "True", "reason": "Tested", "message": "said the Job"},
	}}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) answers() []check.Measured {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.answered)
}

// in runs a test in virtual time, with an examiner and the run that it examines.
func in(t *testing.T, do func(r *rig, e *Examiner, run *Run)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		e, end := r.examiner()
		defer end()
		do(r, e, e.Begin(r.run(1)))
	})
}

// A check object is applied under its own name and its own ledger, and its record is saved before
// that. The Job's end is the answer. The object stays until the question is withdrawn, and then the
// object, its ledger and its record go.
func TestACheckObjectGivesItsVerdict(t *testing.T) {
	for condition, value := range map[string]float64{"Complete": 1, "Failed": 0} {
		t.Run(condition, func(t *testing.T) {
			in(t, func(r *rig, e *Examiner, run *Run) {
				run.Want(r.question(1))
				time.Sleep(time.Minute)
				if names := r.jobs(); len(names) != 1 || !strings.HasPrefix(names[0], "smoke-") || len(r.records()) != 1 || len(r.answers()) != 0 {
					t.Fatalf("Jobs %q, records %q, answers %+v", names, r.records(), r.answers())
				}
				r.ends(condition)
				time.Sleep(time.Minute)
				e.Changed(r.records()[0])
				time.Sleep(time.Minute)
				a := r.answers()
				if len(a) != 1 || a[0].Where != r.question(1)[0].Where || !slices.Equal(a[0].Values, []float64{value}) || a[0].Err != "" {
					t.Errorf("answers %+v", a)
				}
				if len(r.jobs()) != 1 {
					t.Error("the object is gone although the run has the question")
				}
				run.Want(nil)
				time.Sleep(time.Minute)
				if left := r.left(); len(left) > 0 {
					t.Errorf("left: %q", left)
				}
			})
		})
	}
}

// Each measurement has an object of its own, so that no verdict is used twice; the object of the
// measurement before goes.
func TestEachMeasurementHasItsOwnObject(t *testing.T) {
	in(t, func(r *rig, _ *Examiner, run *Run) {
		run.Want(r.question(1))
		time.Sleep(time.Minute)
		first := r.jobs()
		r.ends("Complete")
		time.Sleep(time.Minute)
		run.Want(r.question(2))
		time.Sleep(time.Minute)
		if second := r.jobs(); len(first) != 1 || len(second) != 1 || first[0] == second[0] || len(r.answers()) != 1 {
			t.Errorf("Jobs %q and then %q, answers %+v", first, second, r.answers())
		}
	})
}

// The answer is an error if the object disappears before it has ended, and if the cluster cannot be
// reached for a minute.
func TestACheckObjectWithoutAVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*rig)
		down bool
		want string
	}{
		"it was deleted": {want: "the object was removed before it had ended", do: func(r *rig) {
			id := snapshot.ID{Group: "batch", Version: "v1", Kind: "Job", Namespace: "n", Name: r.jobs()[0]}
			if err := r.fleet.Cluster("c").Delete(id); err != nil {
				r.t.Error(err)
			}
		}},
		"the snapshot has no such object": {want: "other", do: func(*rig) {}},
		"the cluster is away":             {down: true, want: "the cluster cannot be reached", do: func(*rig) {}},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(r *rig, _ *Examiner, run *Run) {
				q := r.question(1)
				if c.want == "other" {
					q[0].Object = "other"
				}
				r.fleet.SetDown("c", c.down)
				run.Want(q)
				time.Sleep(failsFor - time.Second)
				if len(r.answers()) > 0 != (c.want == "other") {
					t.Errorf("answers before a minute: %+v", r.answers())
				}
				c.do(r)
				time.Sleep(2 * retryMost)
				if a := r.answers(); len(a) != 1 || !strings.Contains(a[0].Err, c.want) {
					t.Errorf("answers %+v", a)
				}
			})
		})
	}
}

// An engine that takes a run over finds the object of the engine before, and does not apply another
// one. Between the end of the one and the first questions of the other the object stays.
func TestCheckObjectSurvivesATakeover(t *testing.T) {
	in(t, func(r *rig, _ *Examiner, run *Run) {
		r.recorded(stages.Running)
		run.Want(r.question(1))
		time.Sleep(time.Minute)
		before := r.jobs()
		run.End()
		time.Sleep(time.Minute)
		other, end := r.examiner()
		defer end()
		next := other.Begin(r.run(2))
		other.Changed(r.records()[0])
		time.Sleep(time.Minute)
		if now := r.jobs(); !slices.Equal(before, now) {
			t.Fatalf("Jobs %q before and %q after the takeover", before, now)
		}
		next.Want(r.question(1))
		time.Sleep(time.Minute)
		r.ends("Complete")
		time.Sleep(time.Minute)
		if now := r.jobs(); !slices.Equal(before, now) || len(r.answers()) != 1 {
			t.Errorf("Jobs %q before and %q after the takeover, answers %+v", before, now, r.answers())
		}
	})
}

// The engine that ends a run, or any engine that finds the record of a run that has ended or was
// deleted, removes the object. If the cluster has left the inventory, only the record is removed.
func TestTheObjectOfAnEndedRunIsRemoved(t *testing.T) {
	for name, c := range map[string]struct {
		state stages.State // empty if the run has no record
		leave bool
		kept  bool
	}{
		"running": {state: stages.Running, kept: true}, "ended": {state: stages.Aborted}, "deleted": {}, "without a cluster": {state: stages.Aborted, leave: true},
	} {
		for _, dies := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, the engine dies: %t", name, dies), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t)
					e, end := r.examiner()
					run := e.Begin(r.run(1))
					run.Want(r.question(1))
					time.Sleep(time.Minute)
					r.ends("Complete")
					time.Sleep(time.Minute)
					if c.state != "" {
						r.recorded(c.state)
					}
					if c.leave {
						r.fleet.Remove("c")
					}
					if dies {
						end()
						e, end = r.examiner()
						e.Changed(r.records()[0])
					} else {
						run.End()
					}
					time.Sleep(time.Minute)
					if kept := len(r.records()) > 0; kept != c.kept {
						t.Errorf("the record is kept: %t", kept)
					}
					if !c.leave && len(r.jobs()) > 0 != c.kept {
						t.Errorf("Jobs %q", r.jobs())
					}
					end()
				})
			})
		}
	}
}
