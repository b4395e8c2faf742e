package fleet_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// refuseSettings makes the named members refuse applies, and all others accept them.
func (w *engineEnv) refuseSettings(refusing ...string) {
	for _, name := range []string{"c00", "c01"} {
		w.fleet.Cluster(name).Refuse(func(o *unstructured.Unstructured) error {
			if o.GetKind() == "Setting" && slices.Contains(refusing, name) {
				return errors.New("refused")
			}
			return nil
		})
	}
}

// rollOut rolls out the next change. One cluster may fail.
func (w *engineEnv) rollOut(e *fleet.Engine, n int) {
	w.t.Helper()
	one := intstr.FromInt32(1)
	st := allAtOnce(2)
	st.Attempts, st.Stages[0].MaxFailures = 1, &one
	w.source.Put(plain(fmt.Sprint("v", n)))
	w.create(e, fleet.RunSpec{Name: fmt.Sprint("r", n), Placement: "web", Strategy: st})
	if s := endOf(w.t, e, fmt.Sprint("r", n)); s.Run.State != stages.Completed {
		w.t.Fatalf("run r%d is %s: %s", n, s.Run.State, s.Run.Reason)
	}
}

// However long one cluster cannot be updated, the number of kept snapshots is bounded. The snapshot
// of that cluster is kept until the cluster has another one or has left the fleet.
func TestOneFailingClusterKeepsFewSnapshots(t *testing.T) {
	// last is the number of the last run with a failing cluster.
	last := sampled(40) + 1
	for what, c := range map[string]struct {
		recover func(*engineEnv, *fleet.Engine)
		want    []int
		// later are the kept snapshots after one more run that reaches all clusters.
		later []int
	}{
		"it is caught up with": {func(w *engineEnv, e *fleet.Engine) {
			w.refuseSettings()
			if _, err := e.Run(fmt.Sprint("r", last)).CatchUp(w.t.Context(), "again", approval.Identity{Name: "ann"}); err != nil {
				w.t.Fatal(err)
			}
			endOf(w.t, e, "again")
		}, []int{0, last - 2, last - 1, last}, []int{last - 1, last, last + 1}},
		"the next run reaches it": {func(w *engineEnv, e *fleet.Engine) {
			w.refuseSettings()
			w.rollOut(e, last+1)
		}, []int{0, last - 1, last, last + 1}, []int{last, last + 1, last + 2}},
		"it leaves": {func(w *engineEnv, e *fleet.Engine) {
			w.fleet.Remove("c00")
			w.rollOut(e, last+1)
		}, []int{0, last - 1, last, last + 1}, []int{last, last + 1, last + 2}},
		"it leaves during a run": {func(w *engineEnv, e *fleet.Engine) {
			w.fleet.Hang("c00", true)
			w.source.Put(plain(fmt.Sprint("v", last+1)))
			st := allAtOnce(2)
			w.create(e, fleet.RunSpec{Name: fmt.Sprint("r", last+1), Placement: "web", Strategy: st})
			quiet()
			w.fleet.Remove("c00")
			endOf(w.t, e, fmt.Sprint("r", last+1))
		}, []int{0, last - 1, last, last + 1}, []int{last, last + 1, last + 2}},
		"nothing": {func(*engineEnv, *fleet.Engine) {}, []int{0, 1, last - 2, last - 1, last}, []int{0, last - 1, last, last + 1}},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSmallEnv(t, 2)
				h := w.newEngine(fleet.Config{Name: "host"})
				p := smallPlacement("web")
				p.HistoryLimit, p.RunHistory = 3, 3
				w.declare(h, p)
				defer running(t, h)()
				w.rollOut(h, 0)
				w.refuseSettings("c01")
				w.rollOut(h, 1)
				w.refuseSettings("c00")
				for i := 2; i <= last; i++ {
					w.rollOut(h, i)
				}
				quiet()
				wantKept(t, h, 0, 1, last-2, last-1, last) // all had 0, and c00 has 1
				if n := len(w.keys("content/")); n != 5*3 {
					t.Errorf("%d contents are stored, want %d", n, 5*3)
				}
				c.recover(w, h)
				quiet()
				wantKept(t, h, c.want...)
				if w.fleet.Cluster("c00") != nil {
					w.refuseSettings()
				}
				w.rollOut(h, 99)
				quiet()
				wantKept(t, h, c.later...)
				if keys := w.keys("bindings/"); len(keys) > 2 {
					t.Errorf("rosters that are stored: %v", keys)
				}
			})
		})
	}
}

func wantKept(t *testing.T, e *fleet.Engine, want ...int) {
	t.Helper()
	if got := indexesOf(t, e, "web"); !slices.Equal(got, want) {
		t.Errorf("indexes that are kept: %v, want %v", got, want)
	}
}
