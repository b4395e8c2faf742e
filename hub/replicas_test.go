//go:build unix

package hub_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Of two hubs, one leads and the other waits. The leader is killed in the middle of its work, and
// the other hub continues it.
func TestTheOtherHubCarriesOn(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 3)
	p := &crashScenario{hubEnv: w}
	p.begin()
	dice := rand.New(rand.NewPCG(5, 1))
	pair := []*child{w.spawn("a0", true), w.spawn("b0", true)}
	for i := range rounds(5, 100) {
		during := p.rounds()
		leader := w.leader(pair)
		time.Sleep(time.Duration(dice.IntN(1500)) * time.Millisecond)
		leader.kill()
		pair = slices.DeleteFunc(pair, func(c *child) bool { return c == leader })
		pair = append(pair, w.spawn(fmt.Sprintf("c%d", i), true))
		<-during
	}
	p.verify()
}

// A hub was frozen for longer than its lease, and wakes while another hub leads. Its writes are
// refused: by the members once the other hub has written there, and by the store because of the
// revision of its earlier reads.
func TestAHubThatWasFrozenIsRefused(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 3)
	p := &crashScenario{hubEnv: w}
	p.begin()
	dice := rand.New(rand.NewPCG(6, 1))
	pair := []*child{w.spawn("a0", true), w.spawn("b0", true)}
	for i := range rounds(5, 100) {
		during := p.rounds()
		leader := w.leader(pair)
		time.Sleep(time.Duration(dice.IntN(1500)) * time.Millisecond)
		leader.freeze()
		frozen := time.Now()
		pair = slices.DeleteFunc(pair, func(c *child) bool { return c == leader })
		w.leader(pair)
		if i%2 == 0 {
			<-during // the other hub finishes the work of this one
		}
		leader.wake()
		woken := time.Now()
		<-during
		time.Sleep(lease)
		w.lawOfTheFrozen(leader.name, frozen, woken)
		leader.kill()
		pair = append(pair, w.spawn(fmt.Sprintf("c%d", i), true))
	}
	p.verify()
}

// rounds returns the number of repetitions.
func rounds(few, many int) int {
	if soaks() {
		return many
	}
	return few
}

// rounds plays one round, and closes the channel at its end.
func (p *crashScenario) rounds() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.round()
	}()
	return done
}

// leader waits until one of the children has the lead, and returns it.
func (w *hubEnv) leader(of []*child) (leader *child) {
	w.t.Helper()
	w.eventually("one to lead", func() error {
		lease, err := w.kube.CoordinationV1().Leases(w.name+"-hub").Get(w.t.Context(), "slipway-hub", getOptions())
		if err != nil || lease.Spec.HolderIdentity == nil {
			return fmt.Errorf("no lease: %w", err)
		}
		i := slices.IndexFunc(of, func(c *child) bool { return c.name == *lease.Spec.HolderIdentity })
		if i < 0 {
			return fmt.Errorf("%s leads", *lease.Spec.HolderIdentity)
		}
		leader = of[i]
		return nil
	})
	return leader
}

// lawOfTheFrozen: if another hub has written to a member since a hub was frozen, that hub changes
// nothing there unless it leads again.
func (w *hubEnv) lawOfTheFrozen(name string, frozen, woken time.Time) {
	w.t.Helper()
	again := w.leadsAgain(name, woken)
	sent := 0
	for _, m := range w.members {
		fence := time.Time{}
		for _, write := range m.audit.writes("", "") {
			if write.Agent != name && fence.IsZero() && write.Begun.After(frozen) && write.done() {
				fence = write.Ended
			}
			if write.Agent != name || !write.Begun.After(woken) || write.Begun.After(again) {
				continue
			}
			sent++
			if write.done() && !fence.IsZero() && write.Begun.After(fence) {
				w.t.Errorf("member %s was changed by %s, which was frozen at %s and woke up at %s: %s\n%s", m.name, name, frozen, woken, &write, m.story())
			}
		}
	}
	for _, write := range w.audit.writes("", w.name+"-hub") {
		if write.Agent == name && write.Begun.After(woken) && write.Begun.Before(again) {
			w.t.Logf("after it woke up: %s", &write)
		}
	}
	w.t.Logf("%s was frozen for %v, and sent %d writes to members before it noticed", name, woken.Sub(frozen), sent)
}

// leadsAgain returns when a hub got the lease back after a time, or a time far in the future.
func (w *hubEnv) leadsAgain(name string, after time.Time) time.Time {
	for _, write := range w.audit.writes("leases", w.name+"-hub") {
		if write.Agent == name && write.done() && write.Begun.After(after) {
			return write.Begun
		}
	}
	return after.Add(time.Hour)
}
