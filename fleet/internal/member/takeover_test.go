package member

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// gate holds a leader back before its nth call.
type gate struct {
	at, calls     int
	held, release chan struct{}
}

func newGate(at int) *gate {
	return &gate{at: at, held: make(chan struct{}), release: make(chan struct{})}
}

func (g *gate) before(string, snapshot.ID) {
	if g.calls++; g.calls == g.at {
		close(g.held)
		<-g.release
	}
}

// start begins an update that the gate may hold back.
func (g *gate) start(ctx context.Context, u *Applier, a Assignment) <-chan error {
	end := make(chan error, 1)
	go func() {
		_, err := u.Update(ctx, a)
		end <- err
		close(end)
	}()
	return end
}

// reached waits until the update is held back or has ended.
func (g *gate) reached(end <-chan error) {
	select {
	case <-g.held:
	case <-end:
	}
}

// pausedTrial is a scenario with two leaders.
type pausedTrial struct {
	Before, Old, New string
	// Touched reports whether there was an earlier takeover.
	Touched, SameRun bool
	At               int
	// Unfenced reports whether the member has no fences.
	Unfenced bool
}

// begin brings the member to the start of the scenario.
func (p pausedTrial) begin(t *testing.T, k *kit) {
	if p.Touched {
		plan := faulty.NewPlan(faulty.CrashAfter(4))
		u := k.leader(func(c backend.Conn) backend.Conn { return plan.Conn(c, "c1") })
		if _, err := u.Update(t.Context(), k.want("C", 1, "r0")); err == nil {
			t.Fatal("the leader was to crash")
		}
	}
	if p.Touched || p.Before != "" {
		k.place(p.Before, 2, "r1")
	}
	if p.Touched && k.ledger().Generation != 1 {
		t.Fatalf("there was no takeover: %+v", k.ledger())
	}
}

func randomTrial(r *rand.Rand) pausedTrial {
	revs := []string{"A", "B", "C", "D", ""}
	pick := func() string { return revs[r.IntN(len(revs))] }
	p := pausedTrial{Before: pick(), Old: pick(), New: pick(), Touched: r.IntN(2) == 0, SameRun: r.IntN(3) == 0, At: 1 + r.IntN(18)}
	if p.SameRun {
		p.New = p.Old
	}
	return p
}

// TestT16PausedLeaderChangesNothing covers threat T16: a leader that was paused before any call to
// a member, and wakes up after a newer leader has finished, changes nothing.
func TestT16PausedLeaderChangesNothing(t *testing.T) {
	pausedTrials(t, sampled(1000), false)
}

// TestT16PausedLeaderWithoutFences checks the same on a member without fences. One gap remains
// until the next update: the old leader may create one object that does not exist and that the new
// leader does not want. The ledger has it as doubtful, and the next update removes it. The test
// requires that this happens, which proves that the trials above detect it.
func TestT16PausedLeaderWithoutFences(t *testing.T) {
	if pausedTrials(t, sampled(300), true) == 0 {
		t.Error("the window was never hit: the test does not test enough")
	}
}

// pausedTrials runs the given number of trials and returns how many leaders created an object.
func pausedTrials(t *testing.T, most int, unfenced bool) (windows int) {
	r := rand.New(rand.NewPCG(16, 1))
	for paused := 0; paused < most; {
		p := randomTrial(r)
		p.Unfenced = unfenced
		held, window := p.run(t)
		if held {
			paused++
		}
		if window {
			windows++
		}
		if t.Failed() {
			t.Fatalf("in %+v", p)
		}
	}
	t.Logf("%d leaders were paused, %d created something that was removed again", most, windows)
	return windows
}

func (p pausedTrial) run(t *testing.T) (held, window bool) {
	k := newKit(t)
	p.begin(t, k)
	newRun := "new"
	if p.SameRun {
		newRun = "old"
	}
	g := newGate(p.At)
	hooked := hook
	if p.Unfenced {
		hooked = hookUnfenced
	}
	end := g.start(t.Context(), k.leader(hooked(g.before)), k.want(p.Old, 3, "old"))
	select {
	case <-g.held:
	case err := <-end:
		if err != nil {
			t.Errorf("the old leader, not paused: %v", err)
		}
		return false, false
	}
	next, wanted := k.leader(nil), k.want(p.New, 4, newRun)
	k.must(next, wanted)
	before := k.state()
	close(g.release)
	err := <-end
	if !errors.Is(err, backend.ErrFenced) {
		t.Errorf("the old leader's update ended with %v, want ErrFenced", err)
	}
	window = p.compare(t, k, before)
	if window {
		if r, err := next.Observe(t.Context(), wanted); err != nil || r.Current || r.Healthy {
			t.Errorf("observe with an object too many: %+v, %v", r, err)
		}
	}
	r := k.must(next, wanted)
	if !r.Applied || !r.Current || !r.Healthy || r.Revision != wanted.Revision {
		t.Errorf("the new leader's next update: %+v", r)
	}
	p.end(t, k)
	return true, window
}

// compare reports whether the old leader created an object that it was allowed to create.
func (p pausedTrial) compare(t *testing.T, k *kit, before map[string]*unstructured.Unstructured) (window bool) {
	after := k.state()
	isSuspect := map[string]bool{}
	for _, o := range k.ledger().Suspects {
		isSuspect[o.ID.String()] = true
	}
	for id, obj := range after {
		if p.Unfenced && before[id] == nil && isSuspect[id] && carries(obj, kitPlacement) {
			window = true
			delete(after, id)
		}
	}
	if d := cmp.Diff(before, after); d != "" {
		t.Errorf("the old leader had an effect (-before +after):\n%s", d)
	}
	return window
}

// end checks that exactly the new leader's revision is on the member.
func (p pausedTrial) end(t *testing.T, k *kit) {
	xTaken := k.objects()["ConfigMap/default/x"] == "ours" // released by the engine that has adopted it
	if xTaken && !p.Touched && p.Before != "C" && p.Old != "C" {
		t.Errorf("default/x was changed although nothing wanted it")
	}
	wantObjects(t, k, k.expected(p.New, xTaken))
	adoptedStay(t, k)
}

// TestT16InterleavedLeaders checks that two leaders with randomly interleaved calls end at the
// newer leader's revision, and that nothing that existed before is deleted.
func TestT16InterleavedLeaders(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 2))
	for i := range sampled(1000) {
		p := randomTrial(r)
		k := newKit(t)
		p.begin(t, k)
		turns := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
		ends := [2]<-chan error{}
		for n, a := range []Assignment{k.want(p.Old, 3, "old"), k.want(p.New, 4, "new")} {
			u := k.leader(hook(func(string, snapshot.ID) { <-turns[n] }))
			ends[n] = new(gate).start(t.Context(), u, a)
		}
		errs := interleave(r, turns, ends)
		if errs[0] != nil && !errors.Is(errs[0], backend.ErrFenced) && !errors.Is(errs[0], backend.ErrConflict) {
			t.Errorf("old leader: %v", errs[0])
		}
		if errs[1] != nil && !errors.Is(errs[1], backend.ErrConflict) {
			t.Errorf("new leader: %v", errs[1])
		}
		k.must(k.leader(nil), k.want(p.New, 4, "new"))
		p.end(t, k)
		if t.Failed() {
			t.Fatalf("in trial %d: %+v", i, p)
		}
	}
}

// interleave lets one of two leaders make its next call until both are done.
func interleave(r *rand.Rand, turns [2]chan struct{}, ends [2]<-chan error) (errs [2]error) {
	running := []int{0, 1}
	for len(running) > 0 {
		i := r.IntN(len(running))
		n := running[i]
		select {
		case turns[n] <- struct{}{}:
		case errs[n] = <-ends[n]:
			running = append(running[:i], running[i+1:]...)
		}
	}
	return errs
}

// TestT16TwoPausedLeaders checks that if a leader takes over and is paused itself, the next leader
// fences both.
func TestT16TwoPausedLeaders(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 3))
	for range sampled(1000) {
		p := randomTrial(r)
		k := newKit(t)
		p.begin(t, k)
		first, second := newGate(p.At), newGate(1+r.IntN(20))
		endFirst := first.start(t.Context(), k.leader(hook(first.before)), k.want(p.Old, 3, "old"))
		first.reached(endFirst)
		middle := []string{p.Old, p.New, "B"}[r.IntN(3)]
		endSecond := second.start(t.Context(), k.leader(hook(second.before)), k.want(middle, 4, "middle"))
		second.reached(endSecond)
		u, a := k.leader(nil), k.want(p.New, 5, "new")
		k.must(u, a)
		before := k.state()
		close(first.release)
		close(second.release)
		<-endFirst
		<-endSecond
		p.compare(t, k, before)
		k.must(u, a)
		wantObjects(t, k, k.expected(p.New, k.objects()["ConfigMap/default/x"] == "ours"))
		adoptedStay(t, k)
		if t.Failed() {
			t.Fatalf("in %+v, middle %q, second paused at %d", p, middle, second.at)
		}
	}
}

// TestCrashAtEveryCall checks that if a leader dies at any call to the member, before or after it
// took effect, the next leader with a new epoch reaches the same result as a leader that lives.
func TestCrashAtEveryCall(t *testing.T) {
	for _, story := range []struct{ before, to string }{
		{"", "A"}, {"", "C"}, {"A", "B"}, {"C", "D"}, {"D", "C"}, {"A", ""}, {"C", ""}, {"", ""},
	} {
		for _, after := range []error{nil, faulty.ErrCrashed} {
			for n := 1; ; n++ {
				if !crashAt(t, story.before, story.to, n, after) {
					break
				}
				if t.Failed() {
					t.Fatalf("from %q to %q, crash at call %d, after %v", story.before, story.to, n, after)
				}
			}
		}
	}
}

// crashAt reports whether there was a crash.
func crashAt(t *testing.T, before, to string, n int, after error) bool {
	k := newKit(t)
	if before != "" {
		k.place(before, 1, "r0")
	}
	plan := faulty.NewPlan(faulty.Nth(n, faulty.Fault{Crash: true, After: after}))
	k.member.Record(true)
	dialer := plan.Dialer(backend.DialerFunc(func(context.Context, placement.Cluster) (backend.Conn, error) { return k.member.Conn(), nil }))
	r, err := k.leaderOf(dialer).Update(t.Context(), k.want(to, 2, "r1"))
	if !plan.Crashed() {
		return false
	}
	if err == nil {
		t.Error("a crashed leader reports success")
	}
	log := k.member.Log()
	touched := len(log) > 0 && k.ledgerOrNil() != nil && k.ledgerOrNil().open()
	if touched && !r.Sent {
		t.Errorf("an intent was written, and the report says that nothing was sent: %v", log)
	}
	k.member.Record(false)
	k.member.Record(true)
	if r := k.must(k.leader(nil), k.want(to, 3, "r1")); !r.Applied || !r.Current || !r.Healthy || r.Revision != k.revs[to] {
		t.Errorf("the next leader: %+v", r)
	}
	seen := map[string]int{}
	for _, w := range k.member.Log() {
		if id := w.ID.String(); !reserved(w.ID) && w.Manager != marker(kitPlacement) {
			if seen[id]++; seen[id] > 1 {
				t.Errorf("the next leader wrote %s %d times", id, seen[id])
			}
		}
	}
	wantObjects(t, k, k.expected(to, k.objects()["ConfigMap/default/x"] == "ours"))
	adoptedStay(t, k)
	return true
}

// ledgerOrNil returns the member's ledger, or nil if there is none.
func (k *kit) ledgerOrNil() *ledger {
	if _, err := k.member.Get(ledgerID(kitPlacement)); err != nil {
		return nil
	}
	return k.ledger()
}

// adoptedStay checks that the objects that existed before still exist at the end.
func adoptedStay(t *testing.T, k *kit) {
	t.Helper()
	k.place("", 9, "cleanup")
	got := k.objects()
	for _, id := range []string{"Namespace/pre", "ConfigMap/default/x", "ConfigMap/default/bystander"} {
		if _, ok := got[id]; !ok {
			t.Errorf("%s was there before, and was deleted", id)
		}
	}
	if len(got) != 3 {
		t.Errorf("left after a removal: %v", got)
	}
}

// TestAmbiguousCalls checks that a leader whose calls fail for a while, with or without an effect,
// still reaches its goal with the same epoch.
func TestAmbiguousCalls(t *testing.T) {
	for _, story := range []struct{ before, to string }{{"", "A"}, {"A", "B"}, {"C", "D"}, {"C", ""}} {
		for n := 1; n < 40; n++ {
			for name, f := range map[string]faulty.Fault{"before": faulty.Before(nil), "after": faulty.After(nil)} {
				k := newKit(t)
				if story.before != "" {
					k.place(story.before, 1, "r0")
				}
				plan := faulty.NewPlan(faulty.Nth(n, f), faulty.Nth(n+3, f))
				u := k.leaderOf(plan.Dialer(backend.DialerFunc(func(context.Context, placement.Cluster) (backend.Conn, error) { return k.member.Conn(), nil })))
				if err := tries(t.Context(), u, k.want(story.to, 2, "r1")); err != nil {
					t.Fatal(err)
				}
				wantObjects(t, k, k.expected(story.to, k.objects()["ConfigMap/default/x"] == "ours"))
				adoptedStay(t, k)
				if t.Failed() {
					t.Fatalf("from %q to %q, fault %s call %d", story.before, story.to, name, n)
				}
			}
		}
	}
}

func tries(ctx context.Context, u *Applier, a Assignment) (err error) {
	for range 5 {
		var r backend.Proof
		if r, err = u.Update(ctx, a); err == nil {
			if r.Applied && r.Current {
				return nil
			}
			err = fmt.Errorf("%+v", r) // one object failed, and is tried again
		}
	}
	return err
}

// TestT16LongPauseCreatesAtMostOne checks that a leader which was paused for long reads the ledger
// before it creates an object. On a member without fences, at most the one object whose creation
// was about to be sent is created late; otherwise none is.
func TestT16LongPauseCreatesAtMostOne(t *testing.T) {
	for _, c := range []struct {
		name   string
		hooked func(func(string, snapshot.ID)) func(backend.Conn) backend.Conn
		late   []string
	}{{"fenced", hook, nil}, {"unfenced", hookUnfenced, []string{"app"}}} {
		synctest.Test(t, func(t *testing.T) {
			k := newKit(t)
			g := newGate(8) // the creation of namespace app
			end := g.start(t.Context(), k.leader(c.hooked(g.before)), k.want("A", 2, "old"))
			g.reached(end)
			k.place("", 3, "new")
			time.Sleep(3 * time.Second)
			k.member.Record(true)
			close(g.release)
			if err := <-end; !errors.Is(err, backend.ErrFenced) {
				t.Errorf("%s: the old leader: %v", c.name, err)
			}
			var wrote []string
			for _, w := range k.member.Log() {
				wrote = append(wrote, w.ID.Name)
			}
			if d := cmp.Diff(c.late, wrote); d != "" {
				t.Errorf("%s: the old leader wrote (-want +got):\n%s", c.name, d)
			}
			k.place("", 3, "new")
			wantObjects(t, k, k.expected("", false))
		})
	}
}
