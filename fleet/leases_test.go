package fleet_test

import (
	"context"
	"errors"
	"iter"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// leases returns the result of Leases, by run.
func (w *engineEnv) leases() map[string]fleet.Lease {
	w.t.Helper()
	all, err := w.newEngine(fleet.Config{Name: "observer"}).Leases(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]fleet.Lease{}
	for _, l := range all {
		out[l.Run] = l
	}
	return out
}

// waitFor creates a run, with its own placement, that waits before it ends.
func (w *engineEnv) waitFor(name string, wait time.Duration) {
	w.t.Helper()
	host := w.newEngine(fleet.Config{Name: "host"})
	w.declare(host, smallPlacement(name))
	w.create(host, fleet.RunSpec{Name: name, Placement: name, Strategy: allAtOnce(2, stages.Task{Type: stages.TimedWait, Wait: metav1.Duration{Duration: wait}})})
}

// Leases lists the holder and the end of the lease for every run that has not ended, or whose end
// is not recorded. A damaged record hides no other run.
func TestLeasesListHolderAndExpiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 2)
		c := newCrowd(t, w)
		defer c.feed.stop()
		w.waitFor("broken", time.Hour)
		w.waitFor("done", time.Second)
		w.waitFor("driven", time.Hour)
		c.start("A")
		c.feed.end("done")
		c.feed.of("driven", stages.WaitStarted)
		settle()
		w.create(w.newEngine(fleet.Config{}), fleet.RunSpec{Name: "free", Placement: "done", Hold: true, Strategy: allAtOnce(1)})
		settle()
		c.kill("A")
		at := time.Now()
		edit(t, w.store, "run/broken", damage)
		got := w.leases()
		if err := got["broken"].Err; !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), "run/broken") {
			t.Errorf("the damaged record: %v", err)
		}
		want := map[string]fleet.Lease{
			"broken": {Run: "broken"},
			"driven": {Run: "driven", Placement: "driven", State: stages.Running, Holder: "A", Epoch: 1},
			"free":   {Run: "free", Placement: "done", State: stages.NotStarted, Holder: "A", Epoch: 2},
		}
		if d := cmp.Diff(want, got, cmpopts.IgnoreFields(fleet.Lease{}, "Until", "Err")); d != "" {
			t.Error(d)
		}
		if left := got["driven"].Until.Sub(at); left <= 5*time.Second || left > 15*time.Second {
			t.Errorf("the lease ends in %v", left)
		}
		time.Sleep(time.Until(got["driven"].Until.Add(2 * time.Second)))
		if w.leases()["driven"].Overdue {
			t.Error("the lease is overdue within the skew")
		}
		time.Sleep(2 * time.Millisecond)
		if !w.leases()["driven"].Overdue {
			t.Error("the lease is not overdue")
		}
	})
}

// Inconsistent times are refused, each with a valid value. The defaults of omitted times are
// consistent with the given times.
func TestTimesOfLeasesMustFitTogether(t *testing.T) {
	config := func(lease, skew, call time.Duration) fleet.Config {
		return fleet.Config{Store: memory.NewStore(), Inventory: memory.NewFleet(), Dialer: memory.NewFleet(), Lease: lease, Skew: skew, CallTimeout: call}
	}
	for _, c := range []struct {
		lease, skew, call time.Duration
		want              []string
	}{
		{10 * time.Second, 0, 10 * time.Second, []string{"Config.Lease is 10s and CallTimeout 10s", "15s"}},
		{time.Second, time.Second, 0, []string{"Config.Skew is 1s and Lease 1s", "less"}},
		{0, 15 * time.Second, 0, []string{"Config.Skew is 15s and Lease 15s"}},
		{time.Millisecond, 0, 0, []string{"Config.Lease is 1ms", "10ms"}},
		{time.Second, 2 * time.Second, time.Second, []string{"Config.Lease is 1s and CallTimeout 1s", "Config.Skew is 2s"}},
		{24*time.Hour + 1, 0, 0, []string{"Config.Lease is 24h0m0.000000001s", "at most 24h"}},
		{math.MaxInt64, math.MaxInt64 - 1, 0, []string{"Config.Lease is 2562047h", "at most 24h"}},
		{0, 0, math.MaxInt64, []string{"Config.CallTimeout is 2562047h", "at most 16h"}},
		{time.Minute, 0, math.MaxInt64, []string{"Config.CallTimeout is 2562047h", "at most 16h"}},
		{24 * time.Hour, 24*time.Hour - 1, 16 * time.Hour, nil},
		{0, 0, 16 * time.Hour, nil},
		{15 * time.Second, 0, 10 * time.Second, nil},
		{time.Second, 0, 0, nil},
		{0, 0, time.Minute, nil},
		{0, 20 * time.Second, time.Minute, nil},
	} {
		_, err := fleet.New(config(c.lease, c.skew, c.call))
		if (err == nil) != (c.want == nil) {
			t.Errorf("lease %v, skew %v, call %v: %v", c.lease, c.skew, c.call, err)
		}
		for _, part := range c.want {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("lease %v, skew %v, call %v: %v\nwant %q in it", c.lease, c.skew, c.call, err, part)
			}
		}
	}
}

// clockStore shows a store to an engine whose clock is ahead by a fixed time. It adds that time to
// the times that the engine writes, and subtracts it from the times that the engine reads.
type clockStore struct {
	backend.Watcher
	ahead time.Duration
}

func (s *clockStore) Get(ctx context.Context, key string) (backend.Record, error) {
	rec, err := s.Watcher.Get(ctx, key)
	rec.Value = fleet.ShiftLease(rec, -s.ahead)
	return rec, err
}

func (s *clockStore) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	return s.Watcher.Put(ctx, key, fleet.ShiftLease(backend.Record{Key: key, Value: value}, s.ahead), prev)
}

func (s *clockStore) List(ctx context.Context, prefix string) iter.Seq2[backend.Record, error] {
	return func(yield func(backend.Record, error) bool) {
		for rec, err := range s.Watcher.List(ctx, prefix) {
			rec.Value = fleet.ShiftLease(rec, -s.ahead)
			if !yield(rec, err) {
				return
			}
		}
	}
}
