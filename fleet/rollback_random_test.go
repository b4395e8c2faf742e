package fleet_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// past brings content to the clusters, in runs of some stages each, with changing overrides.
func past(t *testing.T, w *engineEnv, e *fleet.Engine, r *rand.Rand) {
	for i := range 1 + r.IntN(3) {
		p := tutorialPlacement()
		if r.IntN(2) == 0 {
			p.Overrides = []placement.Override{replaceFor("ea", fmt.Sprint("own", i))}
		}
		must(0, e.PutPlacement(t.Context(), p))(t)
		w.holds(fmt.Sprint("v", i))
		ranTo(t, e, fleet.RunSpec{Name: fmt.Sprint("past", i), Placement: ep, Strategy: inStages(nil, someStages(r)...)}, stages.Completed)
		if r.IntN(5) == 0 {
			must(0, e.Placement(ep).SetIrreversible(t.Context(), i, true, "ann"))(t)
		}
	}
}

func someStages(r *rand.Rand) []int {
	return []int{1, 2, 3, 4}[:1+r.IntN(4)]
}

// randomRun returns a run that fails at a cluster, by a rejection, or not at all.
func randomRun(w *engineEnv, r *rand.Rand) fleet.RunSpec {
	spec := inAll("forth")
	s := &spec.Strategy
	s.Profile = []stages.Profile{stages.Staged, stages.ClusterUpdate, stages.Workflow}[r.IntN(3)]
	s.Rollback.New = []stages.NewClusters{stages.RemoveNew, stages.LeaveNew}[r.IntN(2)]
	at := r.IntN(4)
	switch r.IntN(3) {
	case 0:
		w.failsAt(fmt.Sprintf("s%d%c", at+1, 'a'+rune(r.IntN(2))), "next")
	case 1:
		s.Stages[at].After = []stages.Task{{Type: stages.Approval}}
	}
	if r.IntN(3) == 0 {
		s.Stages[r.IntN(4)].MaxConcurrency = nil
	}
	return spec
}

// 200 random scenarios: every cluster that a run changed either has its earlier content in the end
// or is named with a reason, even if the rollback fails at first.
func TestRandomRollbacks(t *testing.T) {
	scenarios := uint64(200)
	if underRace {
		scenarios = 20
	}
	for seed := range scenarios {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			w, e := rolling(t, nil)
			past(t, w, e, r)
			before, spec := w.values(), randomRun(w, r)
			w.holds("next")
			create(t, e, spec)
			time.Sleep(time.Hour)
			for _, req := range must(e.Run("forth").Requests(t.Context()))(t) {
				must(0, e.Run("forth").Command(t.Context(), stages.Command{Verb: stages.Decide, Name: req.Name, By: approval.Identity{Name: "bob"}, Decision: &approval.Decision{Verdict: approval.Reject}}))(t)
			}
			broken := fmt.Sprintf("s%db", 1+r.IntN(4))
			if r.IntN(3) == 0 {
				w.failsAt(broken, before[broken])
			}
			reasons := rollBackAll(t, w, e, broken)
			for c, now := range w.values() {
				if now != before[c] && !slices.Contains(reasons, c) && !slices.Contains(reasons, "all") {
					t.Errorf("seed %d: %s has %s, before the run it had %s, and nothing says why", seed, c, now, before[c])
				}
			}
		})
	}
}

// rollBackAll rolls the run back until nothing is left to do, repairs a cluster after the first
// attempt, and returns the names of the clusters that stay unchanged.
func rollBackAll(t *testing.T, w *engineEnv, e *fleet.Engine, broken string) (kept []string) {
	for try := range 4 {
		time.Sleep(time.Hour)
		b := must(e.Run("forth").RollbackStatus(t.Context()))(t)
		switch {
		case b.Refused != "" && try > 0:
			return kept
		case b.Refused != "":
			return append(kept, "all")
		case b.By != "" && !b.Pending:
			s := must(e.Run(b.By).Status(t.Context()))(t)
			for _, k := range s.Plan.Rollback.Kept {
				kept = append(kept, k.Clusters...)
			}
			if s.Run.State == stages.Completed {
				return kept
			}
			if !s.Run.IsEnded() {
				must(0, e.Run(b.By).Command(t.Context(), stages.Command{Verb: stages.Abort}))(t)
				time.Sleep(time.Minute)
			}
			w.fleet.Cluster(broken).Refuse(nil)
		}
		if _, err := e.Run("forth").Rollback(t.Context(), fleet.RollbackOptions{}); err != nil {
			return append(kept, "all") // which the error says of each
		}
	}
	t.Error("it is never done")
	return kept
}
