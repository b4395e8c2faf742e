package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// firstRun adds to a store a placement whose only run, new-1, has completed on three clusters.
func (v *env) firstRun(policy placement.DeletePolicy) {
	v.t.Helper()
	v.engine(func(ctx context.Context, e *fleet.Engine) {
		v.must(v.source.Put(object("Namespace", "", "new", "")))
		v.must(v.source.Put(object("ConfigMap", "new", "web", "v1")))
		v.must(e.PutPlacement(ctx, fleet.Placement{Name: "new", DeletePolicy: policy, Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "new"}}}))
		_, err := e.CreateRun(ctx, fleet.RunSpec{Name: "new-1", Placement: "new", Strategy: strategy()})
		v.must(err)
		v.wait(ctx, e, "new-1")
	})
}

// The rollback of a first run deletes objects: the question and the preview say how many, on how
// many clusters and which, and the preview names no snapshot.
func TestTheRollbackOfAFirstRunDeletesItsObjects(t *testing.T) {
	v := newEnv(t)
	v.firstRun("")
	const lost = "3 clusters had nothing before it, so 2 objects are DELETED on each: Namespace new with all in it, ConfigMap new/web\n"
	v.shows(cli.ExitUsage, "rollback new-1", "run/new-1 will be rolled back on 3 clusters\n"+lost)
	out := v.shows(cli.ExitDone, "rollback new-1 --preview", "warning: "+lost, "Snapshot:     -\n", "Warnings:     1\n", "GOES TO")
	if n := strings.Count(out, "nothing (2 objects deleted)"); n != 3 {
		t.Errorf("%d clusters lose objects, want 3:\n%s", n, out)
	}
	v.shows(cli.ExitDone, "rollback new-1 --preview -o json", `"goesTo": "nothing (2 objects deleted)"`)
}

// With the policy Abandon, the rollback of a first run leaves the objects.
func TestTheRollbackOfAFirstRunMayLeaveItsObjects(t *testing.T) {
	v := newEnv(t)
	v.firstRun(placement.Abandon)
	v.shows(cli.ExitUsage, "rollback new-1", "3 clusters had nothing before it; 2 objects are left on each (policy Abandon): Namespace new")
	v.shows(cli.ExitDone, "rollback new-1 --preview", "nothing (2 objects left there)")
}

// A rollback to an earlier snapshot deletes the objects that this snapshot does not have, and
// supersedes the runs that wait for their turn.
func TestARollbackNamesTheSnapshotAndTheQueuedRuns(t *testing.T) {
	v := newEnv(t)
	v.shows(cli.ExitDone, "rollback shop-2 --preview", "eu-1      canary   -       snapshot 0\n", "Warnings:     0\n")
	v.engine(func(ctx context.Context, e *fleet.Engine) {
		v.must(e.Run("shop-2").Delete(ctx, true))
		v.must(v.source.Put(object("ConfigMap", "shop", "added", "v3")))
		v.create(ctx, e, "shop-3", strategy(stages.Task{Type: stages.Approval}))
		for requests := 0; requests == 0; time.Sleep(time.Millisecond) {
			open, err := e.Run("shop-3").Requests(ctx)
			v.must(err)
			requests = len(open)
		}
		v.create(ctx, e, "shop-4", strategy())
	})
	const lost = "1 cluster will return to snapshot 0, so 1 object is DELETED there: ConfigMap shop/added\n"
	v.shows(cli.ExitUsage, "rollback shop-3", "run/shop-3 will be rolled back on 1 cluster\n"+lost+"run shop-4, which waits for its turn, becomes Superseded\n")
	v.engine(func(ctx context.Context, e *fleet.Engine) { v.create(ctx, e, "shop-5", strategy()) })
	v.shows(cli.ExitDone, "rollback shop-3 --preview", "snapshot 0 (1 object deleted)", "Snapshot:     0\n", "Warnings:     2\n",
		"2 runs, which wait for their turn, become Superseded: shop-4, shop-5\n")
	v.engine(func(ctx context.Context, e *fleet.Engine) { // the effect is as announced
		_, err := e.Run("shop-3").Rollback(ctx, fleet.RollbackOptions{Name: "back"})
		v.must(err)
		for s := (fleet.RunSummary{}); s.State != stages.Superseded; time.Sleep(time.Millisecond) {
			all, err := e.Placement("shop").Runs(ctx)
			v.must(err)
			s = all[slices.IndexFunc(all, func(r fleet.RunSummary) bool { return r.Name == "shop-5" })]
		}
	})
}
