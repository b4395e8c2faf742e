package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// A crashScenario is the script of a host with engines and members, up to the end of its runs.
type crashScenario struct {
	placement string
	runs      []string
	build     func(t *testing.T) *engineEnv
	tell      func(h *host)
	// touches reports whether a member may be touched although no engine took over.
	touches func(c change) bool
	// partial reports whether some runs do not cover all clusters.
	partial bool
	// again are the clusters that a run may end with more than once, since it is
	// resumed after they have failed.
	again map[string]bool
	// batched gives engine one a store that makes several writes at once.
	batched bool
	// sparse reports whether the race detector tries only every twelfth k instead of every fourth,
	// because other scenarios try the same failures with it.
	sparse bool
}

// The ways in which a write fails.
const (
	crashBefore = "crash before"
	crashAfter  = "crash after"
	ambiguous   = "ambiguous"
	late        = "late"
)

var crashModes = []string{crashBefore, crashAfter, ambiguous, late}

// host is a process with engine one until that crashes, and with engine two from then on.
type host struct {
	*engineEnv
	feed     *feed
	rec      *recorder
	plan     *faulty.Plan
	one, two *fleet.Engine
	crashed  chan struct{}
}

func (s crashScenario) newHost(w *engineEnv, k int, mode string) *host {
	h := &host{engineEnv: w, rec: newRecorder(w.fleet), crashed: make(chan struct{})}
	var once sync.Once
	h.plan = faulty.NewPlan(func(c faulty.Call) faulty.Fault {
		switch {
		case c.Write != k || k == 0:
			return faulty.Fault{}
		case mode == ambiguous:
			return faulty.After(nil)
		case mode == late:
			return faulty.LateCalls(nil, 1+k/len(crashModes)%5)
		}
		once.Do(func() { close(h.crashed) })
		if mode == crashAfter {
			return faulty.Fault{Crash: true, After: faulty.ErrCrashed}
		}
		return faulty.Fault{Crash: true}
	})
	store := h.plan.Store(w.store)
	if s.batched {
		store = h.plan.BatchStore(w.store)
	}
	h.one = w.newEngine(fleet.Config{Name: "one", Store: store, Dialer: h.plan.Dialer(h.rec.dialer("one"))})
	h.two = w.newEngine(fleet.Config{Name: "two", Dialer: h.rec.dialer("two")})
	return h
}

// live runs engine one, and engine two after a crash.
func (h *host) live() (stop func()) {
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		first := running(h.t, h.one)
		select {
		case <-h.crashed:
			first()
			second := running(h.t, h.two)
			<-ctx.Done()
			second()
		case <-ctx.Done():
			first()
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// do makes a call on the living engine, again and again with the same arguments until it succeeds.
func (h *host) do(what string, ask func(context.Context, *fleet.Engine) error) {
	h.t.Helper()
	var err error
	for range 10 {
		e := h.one
		select {
		case <-h.crashed:
			e = h.two
		default:
		}
		if err = ask(h.t.Context(), e); err == nil {
			return
		}
	}
	h.t.Fatalf("%s: %v", what, err)
}

func (h *host) declare(p fleet.Placement) {
	h.do("PutPlacement", func(ctx context.Context, e *fleet.Engine) error { return e.PutPlacement(ctx, p) })
}

func (h *host) capture(placement string, index int) {
	h.do("Capture", func(ctx context.Context, e *fleet.Engine) error {
		s, err := e.Placement(placement).Capture(ctx)
		if err == nil && s.Index != index {
			h.t.Errorf("snapshot %d was taken, want %d", s.Index, index)
		}
		return err
	})
}

func (h *host) create(spec fleet.RunSpec) {
	h.do("CreateRun", func(ctx context.Context, e *fleet.Engine) error {
		_, err := e.CreateRun(ctx, spec)
		if errors.Is(err, backend.ErrConflict) && strings.Contains(err.Error(), "exists already") {
			return nil
		}
		return err
	})
}

// approve answers a request. A repeated answer does not find the request if the first one was
// accepted.
func (h *host) approve(run, request string) {
	failed := false
	h.do("Decide", func(ctx context.Context, e *fleet.Engine) error {
		err := e.Run(run).Command(ctx, stages.Command{Verb: stages.Decide, ID: "approve-" + run, Name: request, By: approval.Identity{Name: "ann"}, Decision: &approval.Decision{Verdict: approval.Approve}})
		if failed && errors.Is(err, backend.ErrNotFound) {
			return nil
		}
		failed = err != nil
		return err
	})
}

func (h *host) command(run string, c stages.Command) {
	h.do("Command", func(ctx context.Context, e *fleet.Engine) error { return e.Run(run).Command(ctx, c) })
}

var tutorialStory = crashScenario{
	placement: "example-placement",
	runs:      []string{"example-run", "example-run-2"},
	build:     newEngineEnv,
	tell: func(h *host) {
		h.declare(tutorialPlacement())
		h.capture("example-placement", 0)
		h.put("value2")
		h.capture("example-placement", 1)
		h.create(fleet.RunSpec{Name: "example-run", Placement: "example-placement", Index: new(1), Strategy: tutorialStrategy()})
		h.approve("example-run", h.feed.of("example-run", stages.ApprovalRequested).Request)
		h.feed.end("example-run")
		h.create(fleet.RunSpec{Name: "example-run-2", Placement: "example-placement", Index: new(0), Strategy: tutorialStrategy()})
		h.approve("example-run-2", h.feed.of("example-run-2", stages.ApprovalRequested).Request)
		h.feed.end("example-run-2")
	},
	touches: func(change) bool { return false },
}

func (w *engineEnv) put(value string) {
	w.t.Helper()
	if err := w.source.Put(configMap("test-cm", value)); err != nil {
		w.t.Fatal(err)
	}
}

// newLongEnv has three stages of ten clusters. One cluster in each refuses the first attempt at
// value2, and s1-05 refuses every attempt.
func newLongEnv(t *testing.T) *engineEnv {
	w := &engineEnv{t: t, store: memory.NewStore(), fleet: memory.NewFleet()}
	w.source = memory.NewSource(namespace("test-namespace"), configMap("test-cm", "value1"))
	for s := 1; s <= 3; s++ {
		for i := range 10 {
			name := fmt.Sprintf("s%d-%02d", s, i)
			c := w.fleet.Add(placement.Cluster{Name: name, Labels: map[string]string{"stage": fmt.Sprint(s)}})
			switch {
			case name == "s1-05":
				refuse(c, 99)
			case i == 3:
				refuse(c, 1)
			}
		}
	}
	return w
}

// refuse makes the first attempts at value2 fail on a cluster.
func refuse(c *memory.Cluster, attempts int) {
	c.Refuse(func(obj *unstructured.Unstructured) error {
		value, _, _ := unstructured.NestedString(obj.Object, "data", "key")
		if value == "value2" && ledgerOf(c, "web").Attempt <= attempts {
			return errors.New("not admitted")
		}
		return nil
	})
}

func longStrategy() stages.Strategy {
	four, one := intstr.FromInt32(4), intstr.FromInt32(1)
	stage := func(n string, after ...stages.Task) stages.Stage {
		return stages.Stage{
			Name: "s" + n, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": n}},
			MaxConcurrency: &four, MaxFailures: &one, After: after,
		}
	}
	return stages.Strategy{
		Name: "long", Attempts: 3, Backoff: metav1.Duration{Duration: time.Second}, MaxBackoff: metav1.Duration{Duration: 5 * time.Second},
		Stages: []stages.Stage{
			stage("1", stages.Task{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Minute}}),
			stage("2", stages.Task{Type: stages.Approval}),
			stage("3"),
		},
	}
}

func web() fleet.Placement {
	return fleet.Placement{Name: "web", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "test-namespace"}}}
}

var longStory = crashScenario{
	placement: "web",
	runs:      []string{"forth", "back"},
	build:     newLongEnv,
	tell: func(h *host) {
		h.declare(web())
		h.capture("web", 0)
		h.put("value2")
		h.create(fleet.RunSpec{Name: "forth", Placement: "web", Strategy: longStrategy()})
		h.feed.await("a cluster of s2 is done", func(ev stages.Event) bool {
			return ev.Run == "forth" && ev.Stage == "s2" && ev.Type == stages.ClusterCompleted
		})
		h.command("forth", stages.Command{ID: "stop-it", Verb: stages.Stop})
		h.feed.of("forth", stages.RunStopped)
		h.command("forth", stages.Command{ID: "go-on", Verb: stages.Start})
		h.approve("forth", h.feed.of("forth", stages.ApprovalRequested).Request)
		h.feed.end("forth")
		h.create(fleet.RunSpec{Name: "back", Placement: "web", Index: new(0), Strategy: longStrategy()})
		h.approve("back", h.feed.of("back", stages.ApprovalRequested).Request)
		h.feed.end("back")
	},
	// The next run takes over the open work of the failed attempts.
	touches: func(c change) bool { return c.Cluster == "s1-05" || strings.HasSuffix(c.Cluster, "3") },
}

// ending holds the results that must be the same however often engines crash.
type ending struct {
	members  map[string][]string
	outcomes []map[string]any
	indexes  []int
	writes   int
}

// play runs a scenario, lets the kth write fail, and checks the invariants.
func (s crashScenario) play(t *testing.T, k int, mode string) (end ending) {
	h := s.newHost(s.build(t), k, mode)
	h.feed = h.follow(k%16 == 0)
	defer h.feed.stop()
	stop := h.live()
	s.tell(h)
	settle()
	stop()
	h.tidy()
	s.checkEvents(h, k)
	s.checkChanges(h)
	observer := h.newEngine(fleet.Config{Name: "observer"})
	for _, run := range s.runs {
		end.outcomes = append(end.outcomes, h.outcome(run))
	}
	for _, sn := range viewOf(t, observer, s.placement).Snapshots() {
		end.indexes = append(end.indexes, sn.Index)
	}
	end.members, end.writes = h.members(), h.plan.Writes()
	return end
}

// settle waits until the engines have finished all work on the ended runs.
func settle() {
	time.Sleep(time.Minute)
	synctest.Wait()
}

// check compares a scenario with a failure with the same scenario without one.
func (s crashScenario) check(t *testing.T, want ending, k int, mode string) {
	synctest.Test(t, func(t *testing.T) {
		defer func() {
			if t.Failed() {
				t.Logf("in: %s write %d", mode, k)
			}
		}()
		got := s.play(t, k, mode)
		if d := cmp.Diff(want.members, got.members); d != "" {
			t.Errorf("members (-want +got):\n%s", d)
		}
		if d := cmp.Diff(want.outcomes, got.outcomes); d != "" {
			t.Errorf("runs (-want +got):\n%s", d)
		}
		if d := cmp.Diff(want.indexes, got.indexes); d != "" {
			t.Errorf("snapshots (-want +got):\n%s", d)
		}
	})
}

// undisturbed runs the scenario without a crash.
func (s crashScenario) undisturbed(t *testing.T) (want ending) {
	synctest.Test(t, func(t *testing.T) { want = s.play(t, 0, "") })
	return want
}

// checkAll checks every crash in ks, in parallel. The race detector makes it ten times slower, so
// with it only every fourth k, or every twelfth, is tried, in one of the ways in turn. make test
// tries all of them without it.
func (s crashScenario) checkAll(t *testing.T, want ending, all []int) {
	for i, mode := range crashModes {
		ks := thinned(all, i, s.every())
		for part := range slices.Chunk(ks, max(1, (len(ks)+3)/4)) {
			t.Run(fmt.Sprintf("%s/%d", mode, part[0]), func(t *testing.T) {
				t.Parallel()
				for _, k := range part {
					if s.check(t, want, k, mode); t.Failed() {
						return
					}
				}
			})
		}
	}
}

// every returns the distance between the ks that are tried in one of the ways.
func (s crashScenario) every() int {
	if s.sparse {
		return apart(12 * len(crashModes))
	}
	return apart(4 * len(crashModes))
}

// thinned returns the elements of all for the crash mode at index way: one in every.
func thinned(all []int, way, every int) []int {
	var out []int
	for i, k := range all {
		if i%every == (every/len(crashModes)*way+way/2)%every {
			out = append(out, k)
		}
	}
	return out
}

// The tutorial, with a crash before and after every write, with every write
// ambiguous, and with every write reported as failed and landing late.
func TestCrashAtEveryWriteOfTheTutorial(t *testing.T) {
	t.Parallel()
	want := tutorialStory.undisturbed(t)
	t.Logf("%d writes", want.writes)
	tutorialStory.checkAll(t, want, upTo(want.writes))
}

// A run of three stages of ten clusters, with failures, a stop, an approval, a
// wait and a rollback: every 40th write and 50 random ones, 15 with the race
// detector; with SLIPWAY_SOAK=1 every write.
func TestCrashInALongRun(t *testing.T) {
	t.Parallel()
	want := longStory.undisturbed(t)
	t.Logf("%d writes", want.writes)
	ks := upTo(want.writes)
	if !soak() {
		r := rand.New(rand.NewPCG(1, 40))
		ks = slices.DeleteFunc(ks, func(k int) bool { return k%40 != 0 })
		random := 50
		if underRace {
			random = 15
		}
		for range random {
			ks = append(ks, 1+r.IntN(want.writes))
		}
	}
	longStory.checkAll(t, want, ks)
}
