package fleet_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// A deletion of a placement that was never rolled out succeeds whenever another engine completes
// it.
func TestTwoDeletionsOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		meanwhile(t, func() (do func(backend.Store), store backend.Store, other, check func()) {
			w, e := declared(t, nil)
			do = func(s backend.Store) {
				if err := w.engine(s, "slow").Placement(ep).Delete(t.Context(), fleet.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			}
			return do, w.store, func() { deleteAndWait(t, e, fleet.DeleteOptions{}) }, w.wantErased
		})
	})
}

// A deletion leaves nothing in the store, even if the placement is deleted while a snapshot is
// taken, clusters are picked, or a run is created. Nor is anything left if an engine deletes the
// placement while it does so.
func TestADeletionBesideARequest(t *testing.T) {
	for name, ask := range map[string]func(*testing.T, *fleet.Engine) error{
		"capture": func(t *testing.T, e *fleet.Engine) error { return second1(e.Placement(ep).Capture(t.Context())) },
		"resolve": func(t *testing.T, e *fleet.Engine) error { return second1(e.Placement(ep).Resolve(t.Context())) },
		"run": func(t *testing.T, e *fleet.Engine) error {
			return second1(e.CreateRun(t.Context(), fleet.RunSpec{Name: "first", Placement: ep, Strategy: oneStage()}))
		},
	} {
		for _, again := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					meanwhile(t, func() (do func(backend.Store), store backend.Store, other, check func()) {
						w, e := declared(t, nil)
						do = func(s backend.Store) { _ = ask(t, w.engine(s, "slow")) }
						other = func() {
							defer running(t, e)()
							deleteAndWait(t, e, fleet.DeleteOptions{Force: true})
							if again {
								w.declareAgain(e)
							}
						}
						check = func() {
							defer running(t, e)()
							if again {
								wantWhole(t, e, ep)
								ranTo(t, e, specOf("second", 0), stages.Completed)
							}
							deleteAndWait(t, e, fleet.DeleteOptions{Force: true})
							time.Sleep(time.Minute)
							w.wantErased()
						}
						return do, w.store, other, check
					})
				})
			})
		}
	}
}
