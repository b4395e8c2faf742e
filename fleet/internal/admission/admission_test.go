package admission

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/internal/caps"
	"github.com/slipway-dev/slipway/fleet/internal/content"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/planning"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// rig is the admitter of an engine on a store whose calls are counted and may have faults.
type rig struct {
	*Admitter
	t     *testing.T
	calls *faulty.Plan
	// under is the store without faults.
	under *memory.Store
}

// on returns an admitter on a store with these faults. Placement p selects a namespace.
func on(t *testing.T, store *memory.Store, rules ...faulty.Rule) *rig {
	calls := faulty.NewPlan(rules...)
	s := calls.Store(store)
	contents := content.New(s)
	st := state.New(state.Options{
		Store: s, Contents: contents, Inventory: memory.NewFleet(placement.Cluster{Name: "c"}), Name: "me", Lease: 15 * time.Second, Poll: time.Second,
		CallTimeout: time.Minute, Clock: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	source := memory.NewSource(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "n"}}})
	planner := planning.New(planning.Options{State: st, Contents: contents, Source: source, Updates: guard.New(time.Minute), CallTimeout: time.Minute})
	return &rig{t: t, calls: calls, under: store, Admitter: New(Options{
		Store: s, State: st, Caps: caps.New(s, st), Contents: contents, Planner: planner, CallTimeout: time.Minute, Forget: func(context.Context, string) {},
	})}
}

// placed stores the record of placement p.
func placed(t *testing.T, change ...func(*record.Placement)) *memory.Store {
	t.Helper()
	store := memory.NewStore()
	p := &record.Placement{Format: record.Format, Placement: record.Declaration{
		Name: "p", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "n"}}, Policy: placement.Policy{Type: placement.PickAll},
	}, Key: record.NewKey(), State: lifecycle.State{UID: "uid-p"}}
	for _, do := range change {
		do(p)
	}
	if _, err := store.Put(t.Context(), record.PlacementKey("p"), record.Encode(p), ""); err != nil {
		t.Fatal(err)
	}
	return store
}

func request(name string) planning.Request {
	return planning.Request{Name: name, Placement: "p", Strategy: stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}}}}
}

// of returns the record of placement p.
func (r *rig) of() *record.Placement {
	r.t.Helper()
	p, _, err := on(r.t, r.under).state.Placement(r.t.Context(), "p")
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

func (r *rig) has(key string) bool {
	_, err := r.under.Get(r.t.Context(), key)
	return err == nil
}

// A run is recorded and queued: the first is active, the next waits.
func TestCreateRun(t *testing.T) {
	r := on(t, placed(t))
	for _, name := range []string{"r1", "r2"} {
		s, err := r.CreateRun(t.Context(), request(name))
		if err != nil || s.Run.State != stages.NotStarted || len(s.Plan.Clusters) != 1 {
			t.Fatalf("%s: %+v, %v", name, s.Run, err)
		}
		if stored, _, err := r.state.Run(t.Context(), name); err != nil || stored.Run.UID != s.Run.UID || !r.of().HasRun(s.Run.UID) {
			t.Errorf("%s is stored as %+v, known: %t, %v", name, stored, r.of().HasRun(s.Run.UID), err)
		}
	}
	if q := r.of().Queue; q.Active == nil || q.Active.Run != "r1" || len(q.Waiting) != 1 || q.Waiting[0].Run != "r2" {
		t.Errorf("queue %+v", q)
	}
}

// A run that is refused for a reason that is known before has written nothing.
func TestARefusedRunWritesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*record.Placement)
		ask    func(*planning.Request)
		want   string
	}{
		"the name is taken":      {ask: func(q *planning.Request) { q.Name = "first" }, want: "exists"},
		"there is no such cap":   {ask: func(q *planning.Request) { q.Strategy.Cap = "x" }, want: "cap x"},
		"the plan is another":    {ask: func(q *planning.Request) { q.Plan = "digest" }, want: "plan"},
		"the version is another": {ask: func(q *planning.Request) { q.Version = "uid-p.9" }, want: "since that was decided"},
		"the placement is busy":  {change: func(p *record.Placement) { p.Placement.Admission = stages.RejectRun }, want: "rejected"},
		"no such placement":      {ask: func(q *planning.Request) { q.Placement = "x" }, want: "placement x"},
	} {
		store := placed(t, func(p *record.Placement) {
			if c.change != nil {
				c.change(p)
			}
		})
		r := on(t, store)
		if _, err := r.CreateRun(t.Context(), request("first")); err != nil {
			t.Fatal(err)
		}
		before := r.calls.Writes()
		q := request("r")
		if c.ask != nil {
			c.ask(&q)
		}
		if _, err := r.CreateRun(t.Context(), q); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if n := r.calls.Writes() - before; n != 0 {
			t.Errorf("%s: %d writes", name, n)
		}
	}
}

// A crash after any write leaves a run that was never recorded, whose name is free, or a recorded
// run, which the engine that takes it admits, once, however often it tries.
func TestACrashWhileARunIsCreated(t *testing.T) {
	recorded := 0
	for n := 1; ; n++ {
		store := placed(t)
		dead := on(t, store, faulty.CrashAfter(n))
		_, err := dead.CreateRun(t.Context(), request("r"))
		if !dead.calls.Crashed() {
			if err != nil || recorded == 0 || recorded == n-1 {
				t.Errorf("%d writes, %d of them from the record of the run on, %v", n-1, recorded, err)
			}
			return
		}
		next := on(t, store)
		if rr, _, err := next.state.Run(t.Context(), "r"); err == nil {
			recorded++
			plan, err := next.state.Plans.Read(t.Context(), rr.Run.Plan)
			for range 2 {
				if err == nil {
					err = next.Admit(t.Context(), rr, &planning.Draft{Plan: plan, Partial: true})
				}
			}
			if err != nil {
				t.Errorf("a crash after write %d: %v", n, err)
			}
		} else if _, err := next.CreateRun(t.Context(), request("r")); err != nil {
			t.Errorf("a crash after write %d: %v", n, err)
		}
		if p := next.of(); len(p.Runs) != 1 || p.Queue.Active == nil || p.Queue.Active.Run != "r" || len(p.Queue.Waiting) != 0 {
			t.Errorf("a crash after write %d: runs %+v, queue %+v", n, p.Runs, p.Queue)
		}
	}
}

// The write of a run's record, or of its admission, may fail although it had an effect. Then the
// run was created. If it had none, nothing is left of the run.
func TestARunThatIsCreatedAfterAll(t *testing.T) {
	for name, c := range map[string]struct {
		fault     faulty.Fault
		admission bool // the write of the admission has the fault
		created   bool
	}{
		"recorded": {fault: faulty.After(nil), created: true}, "not recorded": {fault: faulty.Before(nil)},
		"admitted": {fault: faulty.After(nil), admission: true, created: true}, "not admitted": {fault: faulty.Before(nil), admission: true},
	} {
		recorded := false
		r := on(t, placed(t), func(call faulty.Call) faulty.Fault {
			isRun, isPlacement := call.Key == record.RunKey("r"), call.Key == record.PlacementKey("p")
			if call.Op != "put" || !isRun && (!isPlacement || !recorded) {
				return faulty.Fault{}
			}
			if recorded = true; isRun != c.admission {
				return c.fault
			}
			return faulty.Fault{}
		})
		_, err := r.CreateRun(t.Context(), request("r"))
		if (err == nil) != c.created || r.has(record.RunKey("r")) != c.created || len(r.of().Runs) > 0 != c.created {
			t.Errorf("%s: recorded: %t, admitted %+v, %v", name, r.has(record.RunKey("r")), r.of().Runs, err)
		}
	}
}

// A run that was recorded and not admitted is deleted, unless it was admitted after all, or another
// engine has taken it and may admit it.
func TestWithdraw(t *testing.T) {
	unknown, rejected := errors.New("timed out"), error(&stages.RejectedError{Run: "r", Active: "x"})
	for name, c := range map[string]struct {
		cause   error
		since   func(r *rig, rr *record.Run)
		kept    bool
		refused bool
	}{
		"it was rejected":           {cause: rejected, refused: true},
		"the outcome is unknown":    {cause: unknown, refused: true},
		"it was admitted after all": {cause: unknown, kept: true, since: func(r *rig, rr *record.Run) { r.admit(rr) }},
		"another engine took it": {cause: unknown, kept: true, since: func(r *rig, rr *record.Run) {
			r.put(rr, func(rr *record.Run) { rr.Lease = record.Lease{Holder: "other", Epoch: 3} })
		}},
		"another engine took it and it was rejected": {cause: rejected, refused: true, since: func(r *rig, rr *record.Run) {
			r.put(rr, func(rr *record.Run) { rr.Lease = record.Lease{Holder: "other", Epoch: 3} })
		}},
		"another run has the name": {cause: unknown, kept: true, refused: true, since: func(r *rig, rr *record.Run) {
			r.put(rr, func(rr *record.Run) { rr.Run.UID = "other" })
		}},
	} {
		store := placed(t)
		dead := on(t, store, faulty.On(func(c faulty.Call) bool { return c.Op == "put" && c.Key == record.RunKey("r") }, faulty.Fault{Crash: true, After: faulty.ErrCrashed}))
		if _, err := dead.CreateRun(t.Context(), request("r")); err == nil {
			t.Fatal("the run was created")
		}
		r := on(t, store)
		rr, _, err := r.state.Run(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		if c.since != nil {
			c.since(r, rr)
		}
		err = r.Withdraw(t.Context(), rr, c.cause)
		if (err != nil) != c.refused || c.refused && !errors.Is(err, c.cause) || r.has(record.RunKey("r")) != c.kept {
			t.Errorf("%s: kept: %t, %v", name, r.has(record.RunKey("r")), err)
		}
	}
}

// put changes the stored record of a run.
func (r *rig) put(rr *record.Run, change func(*record.Run)) {
	r.t.Helper()
	now, rev, err := r.state.Run(r.t.Context(), rr.Run.Name)
	if err == nil {
		change(now)
		_, err = r.under.Put(r.t.Context(), record.RunKey(rr.Run.Name), now.Encode(), rev)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) admit(rr *record.Run) {
	r.t.Helper()
	plan, err := r.state.Plans.Read(r.t.Context(), rr.Run.Plan)
	if err == nil {
		err = r.Admit(r.t.Context(), rr, &planning.Draft{Plan: plan, Partial: true})
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// A run in progress is deleted only by force. The next run of the queue follows it.
func TestDeleteRun(t *testing.T) {
	for _, s := range []stages.State{stages.NotStarted, stages.Running, stages.Stopping, stages.Stopped, stages.Failed} {
		for _, force := range []bool{false, true} {
			r := on(t, placed(t))
			for _, name := range []string{"r", "next"} {
				if _, err := r.CreateRun(t.Context(), request(name)); err != nil {
					t.Fatal(err)
				}
			}
			rr, _, err := r.state.Run(t.Context(), "r")
			if err != nil {
				t.Fatal(err)
			}
			r.put(rr, func(rr *record.Run) { rr.Run.State = s })
			refused := !force && (s == stages.Running || s == stages.Stopping)
			err = r.DeleteRun(t.Context(), "r", force)
			if denied := (*stages.RefusedError)(nil); errors.As(err, &denied) != refused || !refused && err != nil {
				t.Errorf("%s, force: %t: %v", s, force, err)
			}
			if r.has(record.RunKey("r")) != refused || r.of().HasRun(rr.Run.UID) != refused {
				t.Errorf("%s, force: %t: recorded: %t, known: %t", s, force, r.has(record.RunKey("r")), r.of().HasRun(rr.Run.UID))
			}
		}
	}
}

// A deletion that was interrupted after any write is completed by the next one. A run that was
// never there is not found.
func TestAnInterruptedDeletionIsCompleted(t *testing.T) {
	for n := 1; ; n++ {
		store := placed(t)
		if _, err := on(t, store).CreateRun(t.Context(), request("r")); err != nil {
			t.Fatal(err)
		}
		dead := on(t, store, faulty.CrashAfter(n))
		if err := dead.DeleteRun(t.Context(), "r", false); !dead.calls.Crashed() {
			if err != nil || n < 3 {
				t.Errorf("%d writes, %v", n-1, err)
			}
			if err := on(t, store).DeleteRun(t.Context(), "r", false); !errdef.IsMissing(err, errdef.Run) {
				t.Errorf("deleted again: %v", err)
			}
			return
		}
		next := on(t, store)
		if err := next.DeleteRun(t.Context(), "r", false); err != nil && !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("a crash after write %d: %v", n, err)
		}
		if p := next.of(); len(p.Runs) != 0 || p.Queue.Active != nil || next.has(record.RunKey("r")) {
			t.Errorf("a crash after write %d: runs %+v, queue %+v", n, p.Runs, p.Queue)
		}
	}
}
