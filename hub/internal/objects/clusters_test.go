package objects

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
)

// One list of the inventory serves the lookups of all members. A new member is found, too.
func TestLookingUpAllMembersListsThemOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists, names := 0, 100
		inventory := backend.InventoryFunc(func(context.Context) iter.Seq2[placement.Cluster, error] {
			lists++
			return func(yield func(placement.Cluster, error) bool) {
				for i := range names {
					if !yield(placement.Cluster{Name: fmt.Sprint(i), UID: fmt.Sprint(lists)}, nil) {
						return
					}
				}
			}
		})
		r := Clusters{Inventory: inventory}
		find := func(name int, uid string) {
			t.Helper()
			if c, err := r.Find(t.Context(), fmt.Sprint(name)); err != nil || c.UID != uid {
				t.Errorf("%d is %+v (%v), want list %s", name, c, err, uid)
			}
		}
		for i := range names {
			find(i, "1")
		}
		names++
		find(100, "2")
		time.Sleep(clustersAge)
		find(0, "3")
	})
}
