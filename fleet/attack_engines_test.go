package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// engineSequences is the number of sequences with two engines, racedEngineSequences the number with
// the race detector.
const (
	engineSequences      = 200
	racedEngineSequences = 20
)

// Two engines crash and come back, an authority gives random answers, and people answer, replay and
// forge. The journal contains no decision that the policy forbids, no decision twice, and the fate
// of every stored answer. Nothing starts before its gate has passed. SLIPWAY_ATTACK_SEED tries one
// sequence alone.
func TestApprovalsUnderAttackThroughEngines(t *testing.T) {
	t.Parallel()
	if s := os.Getenv("SLIPWAY_ATTACK_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) { newRandomAttack(t, seed).fight() })
		return
	}
	n := engineSequences
	if raced && os.Getenv("SLIPWAY_SOAK") != "1" {
		n = racedEngineSequences
	}
	seen := map[string]int{}
	for seed := range uint64(n) {
		synctest.Test(t, func(t *testing.T) {
			s := newRandomAttack(t, seed)
			s.journalChecker.seen = seen
			s.fight()
		})
		if t.Failed() {
			t.Fatalf("run it alone with SLIPWAY_ATTACK_SEED=%d", seed)
		}
	}
	t.Logf("%v", seen)
	for _, what := range []string{"counted", "refused", "by the authority", "crashed", "crashed in a decision", "again", "expired", "rejected", "completed"} {
		if seen[what] < n/40 {
			t.Errorf("%d sequences have %q %d times: they test too little", n, what, seen[what])
		}
	}
}

// randomAttack is an approvalEnv with random moves.
type randomAttack struct {
	*approvalEnv
	rnd            *rand.Rand
	run            step.Run
	journalChecker journalChecker
	spent          []spentCommand

	mu sync.Mutex // guards said and luck, which engines use too
	// said are the decisions that were given, by their comment.
	said map[string]approval.Decision
	luck *rand.Rand
}

func newRandomAttack(t *testing.T, seed uint64) *randomAttack {
	rnd := rand.New(rand.NewPCG(seed, 2))
	p := attackPolicy(rnd)
	if rnd.IntN(3) > 0 {
		p.Expires.Duration = time.Hour
	}
	s := &randomAttack{approvalEnv: newApprovalEnv(t, p), rnd: rnd, luck: rand.New(rand.NewPCG(seed, 3)), said: map[string]approval.Decision{}}
	s.journalChecker.t, s.journalChecker.seen = t, map[string]int{}
	return s
}

func (s *randomAttack) fight() {
	s.begin()
	ctx, cancel := context.WithCancel(s.t.Context())
	var lives sync.WaitGroup
	for _, name := range []string{"one", "two"} {
		rule, crashed := s.doom()
		lives.Go(func() { s.live(ctx, name, rule, crashed) })
	}
	for range 6 + s.rnd.IntN(12) {
		s.act()
	}
	s.judge()
	cancel()
	lives.Wait()
}

// doom draws the write that crashes an engine: any write, or a write that carries out or makes a
// decision.
func (s *randomAttack) doom() (faulty.Rule, chan struct{}) {
	crashed, n, seen := make(chan struct{}), 1+s.rnd.IntN(30), 0
	f := faulty.Fault{Crash: true}
	if s.rnd.IntN(2) == 0 {
		f.After = faulty.ErrCrashed
	}
	decisions, ambiguous := s.rnd.IntN(2) == 0, s.rnd.IntN(4) == 0
	if decisions {
		n = 1 + n/6
	}
	var mu sync.Mutex
	return func(c faulty.Call) faulty.Fault {
		mu.Lock()
		defer mu.Unlock()
		if c.Write == 0 || decisions && !s.pending(c.Key) {
			return faulty.Fault{}
		}
		if seen++; seen != n {
			return faulty.Fault{}
		}
		if ambiguous {
			return faulty.After(nil)
		}
		s.note("crashed", decisions)
		close(crashed)
		return f
	}, crashed
}

// pending reports whether a write belongs to a run with open commands, or to a command.
func (s *randomAttack) pending(key string) bool {
	if len(key) > 8 && key[:8] == "command/" {
		return true
	}
	for range s.store.List(s.t.Context(), "command/") {
		return key == record.RunKey("r")
	}
	return false
}

func (s *randomAttack) note(what string, decisions bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journalChecker.seen[what]++
	if decisions {
		s.journalChecker.seen[what+" in a decision"]++
	}
}

// live is the life of an engine's process, and after a crash the life of the next one.
func (s *randomAttack) live(ctx context.Context, name string, rule faulty.Rule, crashed chan struct{}) {
	cfg := Config{Name: name, Store: faulty.NewPlan(rule).Store(s.store), Authority: approval.Func(s.decide), Lease: 2 * time.Minute, Poll: 20 * time.Second}
	stop := s.drive(s.engine(cfg))
	select {
	case <-ctx.Done():
	case <-crashed:
	}
	stop()
	if ctx.Err() != nil || !backoff.Sleep(ctx, time.Duration(len(name))*7*time.Second) {
		return
	}
	cfg.Store = s.store
	stop = s.drive(s.engine(cfg))
	<-ctx.Done()
	stop()
}

// decide is the authority: it answers rarely, and sets fields that the engine must set, such as the
// time and the binding.
func (s *randomAttack) decide(_ context.Context, r approval.Request) (approval.Decision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.luck.IntN(16) > 0 {
		return approval.Decision{}, nil
	}
	names := []string{"bot-a", "bot-b", "bot-c", "sam", "bot-a ", ""}
	d := s.draw(s.luck, names)
	d.Binding = r.Binding
	s.said[d.Comment] = d
	d.At = time.Now().Add(time.Duration(s.luck.IntN(9)-4) * 24 * time.Hour)
	d.Binding = approval.Binding{RunUID: "forged", Stage: "b", Attempt: s.luck.IntN(4)}
	return d, nil
}

// draw draws a decision that names no request.
func (s *randomAttack) draw(rnd *rand.Rand, names []string) approval.Decision {
	groups := [][]string{{"sre"}, {"sre", "release"}, {"release"}, {"dev"}}
	d := approval.Decision{
		Verdict: approval.Approve, By: approval.Identity{Name: names[rnd.IntN(len(names))], Groups: groups[rnd.IntN(len(groups))]},
		Comment: fmt.Sprint("said ", len(s.said)),
	}
	if rnd.IntN(8) == 0 {
		d.Verdict = approval.Reject
	}
	return d
}

// act plays one move against the run and lets some time pass.
func (s *randomAttack) act() {
	switch s.rnd.IntN(16) {
	case 0:
		s.judge()
		s.note("again", false)
		s.must(s.host.Run("r").Delete(s.t.Context(), true))
		s.begin()
	case 1, 2, 3:
		time.Sleep(time.Duration(20+s.rnd.IntN(80)) * time.Minute)
	case 4:
		s.steer([]stages.Verb{stages.Stop, stages.Stop, stages.Stop, stages.Abort}[s.rnd.IntN(4)])
	case 5:
		s.steer(stages.Start)
	case 6, 7:
		s.replay()
	case 8, 9, 10:
		s.forge()
	default:
		s.speak()
	}
	if s.rnd.IntN(3) > 0 {
		time.Sleep(time.Duration(s.rnd.IntN(90)) * time.Second)
	}
}

func (s *randomAttack) begin() {
	s.run = s.create()
	s.journalChecker.begin(s.policy, s.run)
}

func (s *randomAttack) steer(verb stages.Verb) {
	s.must(LateCommand(s.t.Context(), s.host, s.store, "r", stages.Command{Verb: verb}))
}

// person draws and records the decision of a random person.
func (s *randomAttack) person(b approval.Binding) approval.Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.draw(s.rnd, []string{"ann", "ann", "bob", "cid", "dan", "sam", "an\u200bn"})
	d.At, d.Binding = s.host.state.Now(), b
	s.said[d.Comment] = d
	return d
}

// speak lets a person answer the request that they have seen, either by its binding or by its name.
func (s *randomAttack) speak() {
	status := s.status()
	open := step.Requests(status.Plan, &status.Run)
	if len(open) == 0 {
		return
	}
	b := open[0].Binding
	if s.rnd.IntN(3) == 0 {
		b = approval.Binding{}
	}
	d := s.person(b)
	err := s.host.Run("r").Command(s.t.Context(), stages.Command{Verb: stages.Decide, Name: open[0].Name, By: d.By, Decision: &approval.Decision{Verdict: d.Verdict, Comment: d.Comment, Binding: b}})
	if err == nil {
		s.journalChecker.expect(d)
		if b == (approval.Binding{}) {
			s.journalChecker.named[d.Comment] = open[0].Name
		}
		return
	}
	if kind := kindOf(err); kind != "refused" && kind != "not found" {
		s.t.Errorf("the answer of %s: %v", d.By.Name, err)
	}
}

// forge writes a decision past the engines, mostly about a request that is not open.
func (s *randomAttack) forge() {
	status := s.status()
	b := approval.Binding{RunUID: s.run.UID, Stage: "a", When: approval.Before, Attempt: 1, Plan: s.run.Plan}
	if open := step.Requests(status.Plan, &status.Run); len(open) > 0 {
		b = open[0].Binding
	}
	switch s.rnd.IntN(8) {
	case 0:
		b.Attempt++
	case 1:
		b.Plan = "other"
	case 2:
		b.Stage = "b"
	case 3:
		b.When = approval.After
	case 4:
		b.RunUID = "other"
	}
	d := s.person(b)
	if s.rnd.IntN(4) == 0 {
		d.At = d.At.Add(-time.Hour)
	}
	id := s.id()
	s.plant(spentCommand{stages.Command{ID: id, Decision: &d}, smuggled(id, d)})
}

// replay writes the bytes of a decision again.
func (s *randomAttack) replay() {
	if len(s.spent) > 0 {
		s.plant(s.spent[s.rnd.IntN(len(s.spent))])
	}
}

func (s *randomAttack) plant(c spentCommand) {
	if !slices.Contains(s.journalChecker.ids, c.command.ID) {
		s.journalChecker.ids = append(s.journalChecker.ids, c.command.ID)
		s.journalChecker.expect(*c.command.Decision)
	}
	s.spent = append(s.spent, c)
	s.smuggle(s.run.UID, c.command.ID, c.value)
}

// judge lets the engines carry out all commands and checks the journal of the run.
func (s *randomAttack) judge() {
	time.Sleep(5 * time.Minute)
	status, events := s.status(), s.events()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journalChecker.said = s.said
	s.journalChecker.judge(&status.Run, events)
}
