package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// clusters is an updater whose updates are answered by a function, and whose clusters are healthy
// when they are observed. It lists the updates.
type clusters struct {
	update func(context.Context, member.Assignment) (backend.Proof, error)
	mu     sync.Mutex
	calls  []string
}

func (c *clusters) Update(ctx context.Context, a member.Assignment) (backend.Proof, error) {
	c.mu.Lock()
	c.calls = append(c.calls, fmt.Sprintf("%s %d", a.Cluster.Name, a.Attempt))
	c.mu.Unlock()
	return c.update(ctx, a)
}

func (c *clusters) Observe(context.Context, member.Assignment) (backend.Proof, error) {
	return backend.Proof{Sent: true, Applied: true, Current: true, Healthy: true}, nil
}

// updated returns the updates since the last call, in order.
func (c *clusters) updated() (out []string) {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	out, c.calls = c.calls, nil
	slices.Sort(out)
	return out
}

func newTestWorkers(c *clusters) *workers {
	return &workers{
		updater: c, limiter: member.NewLimiter(8), poll: time.Hour, template: backend.Assignment{Placement: "p", Run: "r"},
		content: func(string, string) func(context.Context) (snapshot.Set, error) { return nil },
		holds:   func(context.Context) (bool, error) { return true, nil }, wake: func() {},
		at: map[int]*worker{}, inbox: make(chan received, inboxSize), fenced: make(chan error, 1),
	}
}

// updates are actions that update clusters, as in "a 1": the first attempt at cluster a.
func updates(all ...string) (out []*stages.Action) {
	for _, text := range all {
		a := &stages.Action{Type: stages.Apply}
		_, _ = fmt.Sscan(text, &a.Cluster, &a.Attempt)
		a.Pos = int(a.Cluster[0])
		out = append(out, a)
	}
	return out
}

func end(ws *workers) {
	ws.cancel()
	ws.wait()
}

// There is a worker for each cluster in flight: the missing ones are started, the wanted ones are
// kept, and the others end.
func TestAWorkerForEachClusterInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clusters{update: func(ctx context.Context, _ member.Assignment) (backend.Proof, error) {
			<-ctx.Done()
			return backend.Proof{}, ctx.Err()
		}}
		ws := newTestWorkers(c)
		defer end(ws)
		for _, step := range []struct {
			wanted, started []string
			workers         int
		}{
			{wanted: []string{"a 1", "b 1"}, started: []string{"a 1", "b 1"}, workers: 2},
			{wanted: []string{"a 1", "b 1"}, workers: 2},
			{wanted: []string{"a 1", "c 1"}, started: []string{"c 1"}, workers: 3}, // b's is about to end
			{wanted: []string{"a 2", "c 1"}, started: []string{"a 2"}, workers: 2},
			{wanted: []string{"b 1"}, started: []string{"b 1"}, workers: 3},
			{workers: 1},
			{workers: 0},
		} {
			ws.reconcile(t.Context(), updates(step.wanted...))
			if diff := cmp.Diff(step.started, c.updated()); diff != "" {
				t.Errorf("wanted %v, started: %s", step.wanted, diff)
			}
			if len(ws.at) != step.workers {
				t.Errorf("wanted %v: %d workers, want %d", step.wanted, len(ws.at), step.workers)
			}
		}
	})
}

// An attempt begins when the attempt before it at the same cluster has ended. The same attempt
// begins again if the run did not want it for a moment.
func TestAttemptWaitsForTheEarlierAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clusters{update: func(context.Context, member.Assignment) (backend.Proof, error) {
			time.Sleep(time.Minute) // whatever happens to its context
			return backend.Proof{Sent: true, Failed: true}, nil
		}}
		ws := newTestWorkers(c)
		defer end(ws)
		for _, step := range []struct{ wanted, started, later []string }{
			{wanted: []string{"a 1"}, started: []string{"a 1"}},
			{wanted: []string{"a 2"}},
			{wanted: []string{"a 2"}, later: []string{"a 2"}},
			{},
			{wanted: []string{"a 2"}, later: []string{"a 2"}},
		} {
			ws.reconcile(t.Context(), updates(step.wanted...))
			if got := c.updated(); !slices.Equal(got, step.started) {
				t.Errorf("wanted %v, started %v, want %v", step.wanted, got, step.started)
			}
			if step.later != nil {
				time.Sleep(time.Minute)
				if got := c.updated(); !slices.Equal(got, step.later) {
					t.Errorf("wanted %v, started %v after the attempt before, want %v", step.wanted, got, step.later)
				}
			}
		}
	})
}

// A worker that cannot reach its cluster, and has sent nothing, says so and ends, so that the run
// may use the slot for another cluster. If the run still wants the attempt after it has read that,
// the next worker begins after a wait that doubles.
func TestAWorkerThatReachesNothingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &clusters{update: func(context.Context, member.Assignment) (backend.Proof, error) {
			return backend.Proof{}, errors.New("connection refused")
		}}
		ws := newTestWorkers(c)
		defer end(ws)
		wait := time.Duration(0)
		for n := range 8 {
			ws.reconcile(t.Context(), updates("a 1"))
			ws.reconcile(t.Context(), updates("a 1")) // nothing was read
			if wait > 0 {
				time.Sleep(wait - 1)
				if got := c.updated(); len(got) > 0 {
					t.Errorf("worker %d begins before %v", n, wait)
				}
				time.Sleep(time.Nanosecond)
			}
			if got := c.updated(); len(got) != 1 {
				t.Errorf("worker %d updates %v after %v", n, got, wait)
			}
			ws.reconcile(t.Context(), updates("a 1"))
			if got := c.updated(); len(got) != 0 {
				t.Errorf("a worker was started before the last observation was read")
			}
			heard := ws.observations(t.Context(), 0, 0)
			if len(heard) != 1 || !heard[0].Unreachable || heard[0].Sent || !ws.at['a'].gone() {
				t.Errorf("worker %d says %+v, ended: %t", n, heard, ws.at['a'].gone())
			}
			wait = min(max(2*wait, member.ReachFirst), member.ReachMost)
		}
	})
}

// A cluster that knows a newer epoch means that another engine has the run, which this driver then
// lets go. If this engine still has the run, the ledger of the cluster is wrong, and only the
// cluster fails. If the store cannot be read, the worker finds out later.
func TestAFencedWorker(t *testing.T) {
	for name, c := range map[string]struct {
		holds  bool
		err    error
		lost   bool
		reason string
	}{
		"another engine has the run":   {lost: true},
		"this engine has the run":      {holds: true, reason: "delete ConfigMap slipway-system/p on the cluster"},
		"the store cannot be read yet": {err: errors.New("timed out"), reason: "fenced"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ws := newTestWorkers(&clusters{update: func(context.Context, member.Assignment) (backend.Proof, error) {
					return backend.Proof{}, fmt.Errorf("fenced: %w", backend.ErrFenced)
				}})
				defer end(ws)
				ws.holds = func(context.Context) (bool, error) { return c.holds, c.err }
				ws.reconcile(t.Context(), updates("a 1"))
				synctest.Wait()
				heard := ws.observations(t.Context(), 0, 0)
				if err := ws.lost(); (err != nil) != c.lost || errors.Is(err, backend.ErrFenced) != c.lost {
					t.Errorf("lost: %v", err)
				}
				if c.lost != (len(heard) == 0) {
					t.Fatalf("heard %+v", heard)
				}
				if !c.lost && (!strings.Contains(heard[0].Message, c.reason) || heard[0].Permanent != c.holds) {
					t.Errorf("heard %+v", heard[0])
				}
			})
		})
	}
}

// Observations wait for those of other clusters until there are enough of them, or for the longest
// wait. Nothing waits for a first one.
func TestObservationsAreReadTogether(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		come    []time.Duration
		longest time.Duration
		enough  int
		read    int
		after   time.Duration
	}{
		"none":                {longest: 100 * ms, enough: 5},
		"the store is fast":   {come: []time.Duration{0, 0, 10 * ms}, enough: 5, read: 2},
		"enough at once":      {come: []time.Duration{0, 0, 0, 0}, longest: 100 * ms, enough: 2, read: 4},
		"enough after a time": {come: []time.Duration{0, 50 * ms, 80 * ms, 90 * ms}, longest: 100 * ms, enough: 3, read: 3, after: 80 * ms},
		"too few":             {come: []time.Duration{0, 50 * ms, 110 * ms}, longest: 100 * ms, enough: 3, read: 2, after: 100 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ws, w := newTestWorkers(nil), new(worker)
				var sent sync.WaitGroup
				for _, after := range c.come {
					w.unreadObservations.Add(1)
					sent.Go(func() {
						time.Sleep(after)
						ws.inbox <- received{stages.Observation{}, w}
					})
				}
				synctest.Wait()
				began := time.Now()
				heard := ws.observations(t.Context(), c.longest, c.enough)
				if took := time.Since(began); len(heard) != c.read || took != c.after {
					t.Errorf("%d observations after %v, want %d after %v", len(heard), took, c.read, c.after)
				}
				if left := int(w.unreadObservations.Load()); left != len(c.come)-c.read {
					t.Errorf("%d observations count as unread", left)
				}
				sent.Wait()
			})
		})
	}
}

// An updater gets the settings of the placement from when the run was taken.
func TestTheAssignmentOfAWorker(t *testing.T) {
	plan := &stages.Plan{}
	rr := &record.Run{Final: lifecycle.OrphanObjects, Lease: record.Lease{Epoch: 3}}
	rr.Run.Name, rr.Run.UID, rr.Run.Placement = "r", "uid-r", "p"
	placed := &record.Placement{Placement: record.Declaration{
		Name: "p", AllowCoOwnership: true, Exclusive: true, DeletePolicy: placement.DeleteAll,
	}}
	tenure := newTenure(rr, plan, nil)
	ws := newWorkers(newEngine(Options{}), &tenure, rr, placed, nil)
	got := ws.assignment(&stages.Action{Type: stages.Remove, Cluster: "a", UID: "uid-a", Attempt: 2}).Assignment
	want := backend.Assignment{
		Placement: "p", Run: "r", RunUID: "uid-r", Epoch: 3, Attempt: 2, Cluster: placement.Cluster{Name: "a", UID: "uid-a"},
		Final: true, Orphan: true, AllowCoOwnership: true, Exclusive: true, DeletePolicy: placement.DeleteAll,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
