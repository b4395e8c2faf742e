package runner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// A cluster of the plan has left if the inventory has no cluster of its name and UID, both when the
// change was told and when the inventory is read after that.
func TestClustersThatLeaveTheInventory(t *testing.T) {
	fleet := func(all ...placement.Cluster) map[string]placement.Cluster {
		out := map[string]placement.Cluster{}
		for _, c := range all {
			out[c.Name] = c
		}
		return out
	}
	a, b := placement.Cluster{Name: "a", UID: "1"}, placement.Cluster{Name: "b"}
	again := placement.Cluster{Name: "a", UID: "2"}
	nameless := placement.Cluster{Name: "a"}
	for name, c := range map[string]struct {
		told, now map[string]placement.Cluster
		gone      []string
		reads     int
	}{
		"all are there":               {told: fleet(a, b), now: fleet()},
		"one has left":                {told: fleet(a), now: fleet(a), gone: []string{"b"}, reads: 1},
		"one is another":              {told: fleet(again, b), now: fleet(again, b), gone: []string{"a"}, reads: 1},
		"one has no UID":              {told: fleet(nameless, b), now: fleet()},
		"the change is older than it": {told: fleet(), now: fleet(a, b), reads: 1},
	} {
		reads := 0
		in := &inventory{
			plan: &stages.Plan{Clusters: []stages.PlannedCluster{{Name: "a", UID: "1"}, {Name: "b", UID: "3"}}}, patience: time.Second, wake: func() {},
			read: func(context.Context) (map[string]placement.Cluster, error) {
				reads++
				return c.now, nil
			},
			told: newLatest[map[string]placement.Cluster](),
		}
		in.tell(c.told)
		gone, isNew := in.gone(t.Context())
		if diff := cmp.Diff(c.gone, gone); diff != "" || !isNew || reads != c.reads {
			t.Errorf("%s: new: %t, %d reads, gone: %s", name, isNew, reads, diff)
		}
		if gone, isNew := in.gone(t.Context()); gone != nil || isNew {
			t.Errorf("%s: again: %v, %t", name, gone, isNew)
		}
	}
}

// If the inventory cannot be read in time, no cluster has left, and the change is told again.
func TestAnInventoryThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs, woken := true, 0
		in := &inventory{
			plan: &stages.Plan{Clusters: []stages.PlannedCluster{{Name: "a"}}}, patience: time.Second, wake: func() { woken++ },
			read: func(ctx context.Context) (map[string]placement.Cluster, error) {
				if hangs {
					<-ctx.Done()
					return nil, errors.New("timed out")
				}
				return nil, nil
			},
			told: newLatest[map[string]placement.Cluster](),
		}
		in.tell(nil)
		began := time.Now()
		if gone, isNew := in.gone(t.Context()); gone != nil || !isNew || time.Since(began) != in.patience {
			t.Errorf("gone %v, new: %t, after %v", gone, isNew, time.Since(began))
		}
		hangs = false
		time.Sleep(retryFirst)
		synctest.Wait()
		if gone, isNew := in.gone(t.Context()); len(gone) != 1 || !isNew || woken != 2 {
			t.Errorf("told again: gone %v, new: %t, woken %d times", gone, isNew, woken)
		}
	})
}
