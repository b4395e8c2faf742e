package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/internal/soak/environment"
)

// scenario is a random story: a fleet and the events of its life. The same seed and number
// generate the same scenario.
type scenario struct {
	name string
	rand *rand.Rand
	seed uint64
	// placements and runs are the names used so far, values the numbers of the contents of the hub.
	placements []string
	runs       []string
	values     int
	// process is the number of this process in the scenario, if there are several.
	process  int
	clusters []environment.Member
}

// newScenario draws the fleet of a scenario, of at most so many clusters.
func newScenario(seed uint64, number, most int) *scenario {
	s := &scenario{name: fmt.Sprintf("s%d", number), seed: seed ^ uint64(number)<<32, rand: rand.New(rand.NewPCG(seed, uint64(number)))}
	for i := range 1 + s.rand.IntN(2) {
		s.placements = append(s.placements, fmt.Sprintf("p%d", i))
	}
	for i := range 1 + s.rand.IntN(most) {
		s.clusters = append(s.clusters, environment.Member{Name: fmt.Sprintf("c%02d", i), Labels: s.labels()})
	}
	return s
}

// labels draws the labels of a cluster. Some are in no stage.
func (s *scenario) labels() map[string]string {
	return map[string]string{
		"stage": fmt.Sprint(1 + s.rand.IntN(6)), "group": string("ab"[s.rand.IntN(2)]), "order": fmt.Sprint(s.rand.IntN(9)),
	}
}

// script generates the steps.
func (s *scenario) script() script {
	steps := []act{}
	for _, p := range s.placements {
		steps = append(steps, s.declare(p), s.edit(p), s.create(p, nil))
	}
	for range 5 + s.rand.IntN(12) {
		steps = append(steps, s.act(len(steps)))
	}
	heals := len(steps)
	steps = append(steps, healStep(s.clusters), endAllStep(s.name))
	for _, p := range s.placements {
		steps = append(steps, retireStep(s.name, p))
	}
	return script{
		name: s.name, clusters: s.clusters, prepare: s.prepare, aside: s.aside, heals: heals, patience: 90 * time.Second,
		steps: append(steps, cleanStep(s.placements), deleteAllStep()),
	}
}

// prepare makes the members refuse some attempts and answer slowly.
func (s *scenario) prepare(env *environment.Environment) {
	for _, r := range s.clusters {
		s.prepareOne(env, r.Name)
	}
}

func (s *scenario) prepareOne(env *environment.Environment, name string) {
	c := env.Members.Cluster(name)
	if c == nil {
		return
	}
	c.Refuse(func(obj *unstructured.Unstructured) error {
		value, _, _ := unstructured.NestedString(obj.Object, "spec", "value")
		if obj.GetKind() == environment.SettingKind && !env.Healed() && environment.LedgerOf(c, obj.GetName()).Attempt <= s.refusals(name, value) {
			return errors.New("not admitted")
		}
		return nil
	})
	d := time.Duration(s.draw(name)%4) * time.Millisecond
	env.Members.SetDelay(name, func() time.Duration { return d })
}

// refusals returns how many attempts to apply a value a cluster refuses.
func (s *scenario) refusals(cluster, value string) int {
	switch s.draw(cluster+value) % 20 {
	case 0:
		return 1 << 30
	case 1, 2:
		return 1
	default:
		return 0
	}
}

// draw returns a number that depends on the scenario and a word only.
func (s *scenario) draw(word string) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, s.seed, word)
	return h.Sum64()
}

// faults generates the faults of the engines' calls, until the environment is healed. Lists and
// watches never hang, because they have no deadline: an engine waits for one as long as its store
// does.
func (s *scenario) faults(healed func() bool) *faulty.Plan {
	return faulty.NewPlan(func(c faulty.Call) faulty.Fault {
		if healed() {
			return faulty.Fault{}
		}
		switch n := s.draw(fmt.Sprint("call", c.N)) % 1000; {
		case n < 4:
			return faulty.Before(nil)
		case n < 8:
			return faulty.After(nil)
		case n < 10:
			return faulty.Late(nil, time.Duration(n)*10*time.Millisecond)
		case n < 11 && c.Op != "list" && c.Op != "watch":
			return faulty.Fault{Hang: true}
		case n < 40:
			return faulty.Fault{Delay: time.Duration(n) * time.Millisecond / 2}
		}
		return faulty.Fault{}
	})
}

// aside performs random concurrent events: people answer, members go down, the disk is full,
// clocks jump.
func (s *scenario) aside(ctx context.Context, env *environment.Environment) {
	r := rand.New(rand.NewPCG(s.seed, uint64(time.Now().UnixNano())))
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	var fullUntil time.Time
	wrong := s.clockRand()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		answerAll(ctx, env, r)
		if wrong != nil && !env.Healed() && wrong.IntN(25) == 0 {
			env.Clocks.Jump(wrong, soakLease)
		}
		switch {
		case env.Healed():
			env.Clocks.Correct()
			continue
		case r.IntN(400) == 0:
			fullUntil = time.Now().Add(time.Duration(r.IntN(300)) * time.Millisecond)
		case r.IntN(30) == 0:
			env.Members.SetDown(s.clusters[r.IntN(len(s.clusters))].Name, r.IntN(2) == 0)
		}
		env.Meter.Full.Store(time.Now().Before(fullUntil) && !env.Healed())
	}
}

// clockRand returns the random source for the jumps of the clocks in a process of the scenario. It
// returns nil in half of the scenarios: there the clocks are right.
func (s *scenario) clockRand() *rand.Rand {
	if s.draw("clocks")%2 == 0 {
		return nil
	}
	return rand.New(rand.NewPCG(s.seed, uint64(s.process)<<16|0xc10c))
}
