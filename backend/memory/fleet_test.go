package memory_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/backendtest"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

var namespace = id("Namespace", "", "default")

func dial(t *testing.T, f *memory.Fleet, name string) backend.Conn {
	t.Helper()
	conn, err := f.Dial(t.Context(), placement.Cluster{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestAClusterMadeAgainIsAnotherOne(t *testing.T) {
	f := memory.NewFleet(placement.Cluster{Name: "a"})
	var before placement.Cluster
	for before = range f.Clusters(t.Context()) {
		break
	}
	old := f.Cluster("a")
	f.Remove("a")
	if _, err := f.Dial(t.Context(), before); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("dialling a removed cluster: %v, want ErrNotFound", err)
	}
	if f.Add(placement.Cluster{Name: "a"}).UID() == old.UID() {
		t.Error("the uid came back")
	}
	if _, err := f.Dial(t.Context(), before); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("dialling the old uid: %v, want ErrNotFound", err)
	}
}

func TestDelayIsWaitedBeforeTheEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet(placement.Cluster{Name: "a"})
		conn := dial(t, f, "a")
		f.SetDelay("a", func() time.Duration { return time.Minute })
		start := time.Now()
		if _, err := conn.Get(t.Context(), namespace); err != nil || time.Since(start) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := conn.Apply(ctx, config("a", nil), backend.ApplyOptions{Manager: "m"})
		if !errors.Is(err, context.DeadlineExceeded) || f.Cluster("a").Len() != 2 {
			t.Errorf("got %v and %d objects", err, f.Cluster("a").Len())
		}
	})
}

func TestDownIsTransientAndEndsWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet(placement.Cluster{Name: "a"})
		conn := dial(t, f, "a")
		ended := make(chan error, 1)
		go func() {
			var last error
			for _, err := range backend.WatchConn(t.Context(), conn, []snapshot.ID{namespace}, 0) {
				last = err
			}
			ended <- last
		}()
		synctest.Wait()
		f.SetDown("a", true)
		_, getErr := conn.Get(t.Context(), namespace)
		_, dialErr := f.Dial(t.Context(), placement.Cluster{Name: "a"})
		for what, err := range map[string]error{"watch": <-ended, "get": getErr, "dial": dialErr} {
			if err == nil || !strings.Contains(err.Error(), "cannot be reached") {
				t.Errorf("%s: %v", what, err)
			}
		}
		f.SetDown("a", false)
		if _, err := conn.Get(t.Context(), namespace); err != nil {
			t.Error(err)
		}
	})
}

func TestHangBlocksUntilTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet(placement.Cluster{Name: "a"})
		conn := dial(t, f, "a")
		f.Hang("a", true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		if _, err := conn.Get(ctx, namespace); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		f.Hang("a", false)
		if _, err := conn.Get(t.Context(), namespace); err != nil {
			t.Error(err)
		}
	})
}

func TestAWatchTellsAfterTheMemberHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := memory.NewFleet(placement.Cluster{Name: "a"})
		conn := dial(t, f, "a")
		n := 0
		go func() {
			for _, err := range backend.WatchConn(ctx, conn, []snapshot.ID{namespace}, 0) {
				if err == nil {
					n++
				}
			}
		}()
		synctest.Wait()
		f.Hang("a", true)
		_ = f.Cluster("a").SetStatus(namespace, map[string]any{"phase": "Active"})
		synctest.Wait()
		if n != 1 {
			t.Errorf("%d signs while the member hangs, want the first one", n)
		}
		f.Hang("a", false)
		synctest.Wait()
		if n != 2 {
			t.Errorf("%d signs afterwards, want 2", n)
		}
		cancel()
		synctest.Wait()
	})
}

func TestInventoryTellsThatItChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := memory.NewFleet()
		n := 0
		go func() {
			for range backend.WatchInventory(ctx, f, time.Hour) {
				n++
			}
		}()
		var got []int
		for _, change := range []func(){
			func() {},
			func() { f.Add(placement.Cluster{Name: "a"}) },
			func() { f.Relabel("a", map[string]string{"x": "y"}) },
			func() { f.Relabel("nobody", nil) },
			func() { f.Remove("a") },
		} {
			change()
			synctest.Wait()
			got = append(got, n)
		}
		if diff := cmp.Diff([]int{1, 2, 3, 3, 4}, got); diff != "" {
			t.Error(diff)
		}
		cancel()
		synctest.Wait()
	})
}

func TestFleetYieldsCopies(t *testing.T) {
	labels := map[string]string{"x": "y"}
	f := memory.NewFleet(placement.Cluster{Name: "a", Labels: labels})
	labels["x"] = "changed"
	for range 2 {
		for c := range f.Clusters(t.Context()) {
			if c.Labels["x"] != "y" {
				t.Errorf("labels are %v", c.Labels)
			}
			c.Labels["x"] = "changed"
		}
	}
}

// A reported property of a cluster is in the inventory, and watchers receive it; the name and the
// UID do not change, and nothing is shared.
func TestReport(t *testing.T) {
	f := memory.NewFleet(placement.Cluster{Name: "a"})
	uid := f.Cluster("a").UID()
	taints := []placement.Taint{{Key: "k", Effect: placement.NoSchedule}}
	f.Report("a", func(c *placement.Cluster) {
		c.Name, c.UID, c.Taints, c.Unhealthy, c.Leaving = "b", "other", taints, "no heartbeat", true
		c.Properties = map[string]resource.Quantity{"cpu": resource.MustParse("2")}
	})
	f.Report("nobody", func(*placement.Cluster) { t.Error("a cluster that is not there changes") })
	taints[0].Key = "later"
	want := placement.Cluster{
		Name: "a", UID: uid, Taints: []placement.Taint{{Key: "k", Effect: placement.NoSchedule}}, Unhealthy: "no heartbeat", Leaving: true,
		Properties: map[string]resource.Quantity{"cpu": resource.MustParse("2")},
	}
	backendtest.TestInventory(t, f, want)
	for c := range f.Clusters(t.Context()) {
		c.Taints[0].Key = "mine"
	}
	backendtest.TestInventory(t, f, want)
}
