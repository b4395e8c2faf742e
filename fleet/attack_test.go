package fleet

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
	"github.com/slipway-dev/slipway/stages/step"
)

// attackSequences is the number of sequences of moves, racedSequences the number with the race
// detector.
const (
	attackSequences = 10_000
	racedSequences  = 1_000
	attackWorlds    = 10
)

// People, clocks, crashes and other writers of the store attack an approval. Nothing is accepted
// that the policy forbids, and nothing is lost that it allows. SLIPWAY_ATTACK_SEED tries one
// sequence alone; a thousand are tried with the race detector, unless SLIPWAY_SOAK=1.
func TestApprovalsUnderAttack(t *testing.T) {
	t.Parallel()
	if s := os.Getenv("SLIPWAY_ATTACK_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		attackFrom(t, seed, 1)
		return
	}
	n := uint64(attackSequences / attackWorlds)
	if raced && os.Getenv("SLIPWAY_SOAK") != "1" {
		n = racedSequences / attackWorlds
	}
	for i := range uint64(attackWorlds) {
		t.Run(fmt.Sprint(i*n), func(t *testing.T) {
			t.Parallel()
			attackFrom(t, i*n, n)
		})
	}
}

// attackFrom tries n sequences in one environment.
func attackFrom(t *testing.T, first, n uint64) {
	synctest.Test(t, func(t *testing.T) {
		a := newAttacked(t)
		for seed := first; seed < first+n; seed++ {
			if a.attack(seed); t.Failed() {
				t.Fatalf("run it alone with SLIPWAY_ATTACK_SEED=%d", seed)
			}
		}
		if n > 1 {
			a.checkVariety(int(n))
		}
	})
}

// attacked is a run that passes from gate to gate, with a model of its expected state. The test
// drives it as an engine does, and keeps its record between steps as an engine does.
type attacked struct {
	t     *testing.T
	e     *Engine
	store *memory.Store
	rnd   *rand.Rand
	plans map[string]*stages.Plan
	plan  *stages.Plan
	rec   *record.Run
	rev   backend.Revision
	model attackModel
	// old are the bindings of closed requests, sent the stored commands, spent the commands that
	// were stored before, ids the IDs of answers.
	old   []approval.Binding
	sent  []stages.Command
	spent []spentCommand
	ids   []string
	drawn int
	// seen counts the results of the sequences.
	seen map[string]int
}

// spentCommand is a command that was stored before.
type spentCommand struct {
	command stages.Command
	value   []byte
}

func newAttacked(t *testing.T) *attacked {
	t.Helper()
	a := &attacked{t: t, store: memory.NewStore(), plans: map[string]*stages.Plan{}, seen: map[string]int{}}
	members := memory.NewFleet()
	var err error
	a.e, err = New(Config{Store: a.store, Inventory: members, Dialer: members})
	a.must(err)
	return a
}

func (a *attacked) must(err error) {
	if err != nil {
		a.t.Helper()
		a.t.Fatal(err)
	}
}

// attack plays one sequence, on its own runs.
func (a *attacked) attack(seed uint64) {
	a.rnd = rand.New(rand.NewPCG(seed, 1))
	a.model.policy, a.model.starter = attackPolicy(a.rnd), "sam"
	if a.rnd.IntN(16) == 0 {
		a.model.starter = ""
	}
	a.old, a.sent, a.spent, a.ids, a.drawn = nil, nil, nil, nil, 0
	a.create()
	a.again()
	for range 5 + min(a.rnd.IntN(26), a.rnd.IntN(26), a.rnd.IntN(26)) {
		if a.move(); a.t.Failed() {
			return
		}
	}
}

func attackPolicy(rnd *rand.Rand) approval.Policy {
	p := approval.Policy{ForbidStarter: rnd.IntN(2) == 0, RequireBinding: rnd.IntN(4) == 0}
	switch rnd.IntN(4) {
	case 1:
		p.Quorums = []approval.Quorum{{Count: 2}}
	case 2:
		p.Quorums = []approval.Quorum{{Group: "sre", Count: 1}}
	case 3:
		p.Quorums = []approval.Quorum{{Group: "sre", Count: 2}, {Group: "release", Count: 1}}
	}
	if rnd.IntN(2) == 0 {
		p.Expires.Duration = time.Hour
	}
	return p
}

// planOf returns the plan of a strategy with a gate before stage a, after it and
// before stage b.
func (a *attacked) planOf(p approval.Policy, index int) *stages.Plan {
	key := fmt.Sprint(p, index)
	if a.plans[key] == nil {
		plan, err := planner.Plan(
			attackStrategy(p),
			stages.Target{Placement: "p", Index: index, Snapshot: fmt.Sprint("snapshot", index), Selection: "decision", Default: "revision"},
			[]placement.Cluster{{Name: "a", Labels: map[string]string{"stage": "a"}}, {Name: "b", Labels: map[string]string{"stage": "b"}}},
		)
		a.must(err)
		a.must(a.e.state.Plans.Write(a.t.Context(), plan))
		a.plans[key] = plan
	}
	return a.plans[key]
}

func attackStrategy(p approval.Policy) stages.Strategy {
	task := []stages.Task{{Type: stages.Approval, Approval: &p}}
	in := func(stage string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"stage": stage}}
	}
	return stages.Strategy{Profile: stages.ClusterUpdate, Stages: []stages.Stage{
		{Name: "a", Selector: in("a"), Before: task, After: task}, {Name: "b", Selector: in("b"), Before: task},
	}}
}

// create makes the run and brings it to its first gate. It writes the same record as CreateRun, at
// a hundredth of the cost.
func (a *attacked) create() {
	a.plan = a.planOf(a.model.policy, a.rnd.IntN(2))
	run := step.NewRun(a.plan, "r", record.NewUID(), approval.Identity{Name: a.model.starter}, false, a.e.state.Now())
	run = step.Step(a.plan, run, stages.Input{Now: time.Now()}).Run
	a.rec = &record.Run{Run: run}
	prev := backend.Revision("")
	if rec, err := a.store.Get(a.t.Context(), record.RunKey("r")); err == nil {
		prev = rec.Revision
	}
	var err error
	a.rev, err = a.store.Put(a.t.Context(), record.RunKey("r"), record.Encode(a.rec), prev)
	a.must(err)
	a.sent = nil
	a.model.create(run.UID, a.plan.Digest, time.Now())
	a.check("creation")
}

// again makes a run with the same name, perhaps with another plan.
func (a *attacked) again() {
	a.old = append(a.old, a.model.binding)
	a.must(a.e.state.Erase(a.t.Context(), lifecycle.Run{Name: "r", UID: a.rec.Run.UID}))
	a.create()
}

// load takes the run over by reading it from the store.
func (a *attacked) load() {
	var err error
	a.rec, a.rev, err = a.e.state.Run(a.t.Context(), "r")
	a.must(err)
}

// check compares the run with the model, after every move.
func (a *attacked) check(what string) {
	m, run := &a.model, &a.rec.Run
	if run.State != m.run {
		a.t.Errorf("after %s: the run is %s (%s), want %s", what, run.State, run.Reason, m.run)
		return
	}
	if m.final() {
		return
	}
	st := &run.Form(runstate.Key{}).Stages[run.Form(runstate.Key{}).Stage]
	i := slices.IndexFunc(st.Gates, func(g runstate.Gate) bool { return g.When == m.binding.When })
	if i < 0 || a.plan.Stages[run.Form(runstate.Key{}).Stage].Name != m.binding.Stage {
		a.t.Errorf("after %s: the run is in stage %d, gates %+v, want %+v", what, run.Form(runstate.Key{}).Stage, st.Gates, m.binding)
		return
	}
	a.checkGate(what, &st.Gates[i])
}

func (a *attacked) checkGate(what string, g *runstate.Gate) {
	m := &a.model
	same := slices.EqualFunc(g.Decisions, m.given, func(got, want approval.Decision) bool {
		return got.By.Name == want.By.Name && got.Verdict == want.Verdict && got.Comment == want.Comment && got.Binding == want.Binding
	})
	if !same || g.State != m.state || g.Attempt != m.binding.Attempt || !g.Opened.Time().Equal(m.opened) {
		a.t.Errorf("after %s: %+v\nwant %s, attempt %d, opened %v, %+v", what, *g, m.state, m.binding.Attempt, m.opened, m.given)
	}
}

// checkVariety checks that the sequences reached every interesting result.
func (a *attacked) checkVariety(sequences int) {
	for _, what := range []string{
		"nil", "not found", "refused", "conflict", "repeated", "lost save", "left commands", "taken over", "replayed", "volley",
		string(stages.ApprovalGiven), string(stages.ApprovalAccepted), string(stages.ApprovalRejected), string(stages.ApprovalExpired), string(stages.CommandRefused),
		string(stages.Failed), string(stages.Stopped), string(stages.Aborted), string(stages.Superseded), string(stages.Completed), "restarted",
	} {
		if a.seen[what] < sequences/50 {
			a.t.Errorf("%d sequences have %q %d times: they test too little", sequences, what, a.seen[what])
		}
	}
}
