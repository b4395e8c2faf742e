package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// gauge is an authority that measures: its answers are valid only at a point in time.
type gauge struct {
	mu sync.Mutex
	// does makes its answer when it is asked.
	does func(context.Context) (approval.Verdict, error)
	// asked are the times of the questions, with the number of decisions in each.
	asked []question
}

type question struct {
	at        time.Time
	decisions int
}

func approves(context.Context) (approval.Verdict, error) { return approval.Approve, nil }

func abstains(context.Context) (approval.Verdict, error) { return "", nil }

func fails(context.Context) (approval.Verdict, error) { return "", errors.New("no data") }

func panics(context.Context) (approval.Verdict, error) { panic("no data") }

func hangs(ctx context.Context) (approval.Verdict, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

func (g *gauge) set(does func(context.Context) (approval.Verdict, error)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.does = does
}

func (g *gauge) Decide(ctx context.Context, r approval.Request) (approval.Decision, error) {
	g.mu.Lock()
	does := g.does
	g.asked = append(g.asked, question{time.Now(), len(r.Decisions)})
	g.mu.Unlock()
	v, err := does(ctx)
	return approval.Decision{Verdict: v, By: approval.Identity{Name: "gauge", Groups: []string{"metrics"}}, Comment: "0.1% errors", PointInTime: true}, err
}

// count returns the number of questions.
func (g *gauge) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.asked)
}

// measured is a policy that requires a person and a measurement.
func measured() approval.Policy {
	return approval.Policy{Quorums: []approval.Quorum{{Group: "sre", Count: 1}, {Group: "metrics", Count: 1}}}
}

// approve approves the open request of the run as a person.
func (s *approvalEnv) approve(name string) {
	s.t.Helper()
	status := s.status()
	open := step.Requests(status.Plan, &status.Run)
	if len(open) != 1 {
		s.t.Fatalf("the run is %s (%s), and has %d requests", status.Run.State, status.Run.Reason, len(open))
	}
	s.must(s.host.Run("r").Command(s.t.Context(), stages.Command{Verb: stages.Decide, Name: open[0].Name, By: approval.Identity{Name: name, Groups: []string{"sre"}}, Decision: &approval.Decision{Verdict: approval.Approve}}))
}

// started reports whether the first stage of the run has started.
func (s *approvalEnv) started() bool {
	return s.stages()[0].Started != 0
}

// A person approves hours after a good measurement. The measurement is bad at that time, so the
// gate stays shut until it is good again, whatever the authority does in between.
func TestAMeasurementIsTakenAgainAfterTheLastPerson(t *testing.T) {
	for name, bad := range map[string]func(context.Context) (approval.Verdict, error){
		"refuses": abstains, "fails": fails, "panics": panics, "hangs": hangs,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, g := newApprovalEnv(t, measured()), &gauge{does: approves}
				defer s.drive(s.engine(Config{Name: "one", Authority: g}))()
				s.create()
				time.Sleep(5 * time.Hour)
				g.set(bad)
				time.Sleep(time.Minute)
				s.approve("ann")
				time.Sleep(3 * time.Hour)
				if s.started() {
					t.Fatal("the stage started on a measurement of hours ago")
				}
				g.set(approves)
				time.Sleep(10 * time.Minute)
				gate := s.stages()[0].Gates[0]
				if !s.started() || len(gate.Decisions) != 2 {
					t.Fatalf("the measurement is good again, and the gate is %+v", gate)
				}
				if age := gate.Ended.Time().Sub(gate.Decisions[1].At); gate.Decisions[1].By.Name != "gauge" || age < 0 || age > approval.PointInTimeAge {
					t.Errorf("the gate opened %s after %+v", age, gate.Decisions[1])
				}
				var told []stages.EventType
				for _, ev := range s.events() {
					if ev.Request == "r-before-a" {
						told = append(told, ev.Type)
					}
				}
				if want := []stages.EventType{stages.ApprovalRequested, stages.ApprovalEarly, stages.ApprovalGiven, stages.ApprovalAccepted}; !slices.Equal(told, want) {
					t.Errorf("the journal tells %v, want %v", told, want)
				}
			})
		})
	}
}

// The authority is asked at intervals that grow up to ten times Poll, and at once when
// a person has approved.
func TestAnAuthorityIsAskedAtOnceWhenAPersonHasApproved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := newApprovalEnv(t, measured()), &gauge{does: abstains}
		defer s.drive(s.engine(Config{Name: "one", Authority: g, Poll: time.Minute}))()
		s.create()
		time.Sleep(2*time.Hour + 30*time.Second)
		g.mu.Lock()
		for i := 1; i < len(g.asked); i++ {
			if d, want := g.asked[i].at.Sub(g.asked[i-1].at), min(time.Minute<<(i-1), 10*time.Minute); d != want {
				t.Errorf("asked %s after it was, want %s", d, want)
			}
		}
		n := len(g.asked)
		g.mu.Unlock()
		s.approve("ann")
		when := time.Now()
		time.Sleep(time.Second)
		g.mu.Lock()
		last := g.asked[len(g.asked)-1]
		if g.mu.Unlock(); len(g.asked) != n+1 || last.decisions != 1 || last.at.Sub(when) > time.Second {
			t.Errorf("asked %d times more, the last time %s later with %d decisions", len(g.asked)-n, last.at.Sub(when), last.decisions)
		}
		g.set(approves)
		time.Sleep(5 * time.Minute)
		if !s.started() {
			t.Error("the gate did not open")
		}
	})
}

// If a gate also has a timed wait, the measurement is taken after the wait.
func TestAMeasurementIsTakenAfterTheWaitsBesideIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := newApprovalEnv(t, measured()), &gauge{does: approves}
		defer s.drive(s.engine(Config{Name: "one", Authority: g}))()
		strategy := attackStrategy(approval.Policy{Quorums: []approval.Quorum{{Group: "metrics", Count: 1}}})
		strategy.Stages[0].Before = append(strategy.Stages[0].Before, stages.Task{Type: stages.TimedWait, Wait: metav1.Duration{Duration: 2 * time.Hour}})
		_, err := s.host.CreateRun(t.Context(), RunSpec{Name: "r", Placement: "p", Strategy: strategy})
		s.must(err)
		time.Sleep(time.Hour)
		if gates := s.stages()[0].Gates; gates[0].State != stages.Pending || gates[1].State != stages.Pending {
			t.Errorf("an hour before the wait is over, the gates are %+v", gates)
		}
		g.set(abstains)
		time.Sleep(2 * time.Hour)
		if s.started() {
			t.Error("the stage started on a measurement before the wait was over")
		}
		g.set(approves)
		time.Sleep(time.Hour)
		if !s.started() {
			t.Error("the gate did not open")
		}
	})
}

// A gate requires the host's measurement and the engine's own approval that nothing has drifted. It
// opens when both are valid at the same time.
func TestTwoMeasurementsOfOneGateHoldTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := measured()
		policy.Quorums = append(policy.Quorums, NoDrift().Approval.Quorums...)
		s, g := newApprovalEnv(t, policy), &gauge{does: abstains}
		defer s.drive(s.engine(Config{Name: "one", Authority: g}))()
		s.create()
		time.Sleep(time.Hour)
		s.approve("ann")
		time.Sleep(time.Hour)
		if s.started() {
			t.Error("the stage started without the measurement")
		}
		g.set(approves)
		time.Sleep(10 * time.Minute)
		gate := s.stages()[0].Gates[0]
		if !s.started() || len(gate.Decisions) != 3 || gate.Decisions[2].At.Sub(gate.Decisions[1].At).Abs() > approval.PointInTimeAge {
			t.Errorf("the gate is %+v", gate)
		}
	})
}

// If the engine that drives the run crashes at any time, the other engine does not open the gate
// with an answer that the first one received.
func TestAMeasurementDoesNotSurviveACrash(t *testing.T) {
	t.Parallel()
	writes := 0
	for after := range 2 {
		for k := 1; ; k += apart(7) {
			crashed := false
			t.Run(fmt.Sprintf("write %d, after it: %d", k, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { crashed = crashWhileMeasuring(t, k, after == 1) })
			})
			if !crashed {
				break
			}
			writes++
		}
	}
	t.Logf("%d crashes", writes)
	if writes < 10/apart(7) {
		t.Errorf("only %d writes", writes)
	}
}

// crashWhileMeasuring crashes the first engine at its kth write, and reports whether that write
// happened.
func crashWhileMeasuring(t *testing.T, k int, after bool) bool {
	s, g := newApprovalEnv(t, measured()), &gauge{does: approves}
	crashed := make(chan struct{})
	var once sync.Once
	store := faulty.NewPlan(func(c faulty.Call) faulty.Fault {
		if c.Write != k {
			return faulty.Fault{}
		}
		once.Do(func() { close(crashed) })
		if after {
			return faulty.Fault{Crash: true, After: faulty.ErrCrashed}
		}
		return faulty.Fault{Crash: true}
	}).Store(s.store)
	stopFirst := s.drive(s.engine(Config{Name: "one", Store: store, Authority: g, Lease: 2 * time.Minute, Poll: 5 * time.Second}))
	second := make(chan struct{})
	over, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(second)
		select {
		case <-crashed:
			stopFirst()
			stop := s.drive(s.engine(Config{Name: "two", Authority: g, Lease: 2 * time.Minute, Poll: 5 * time.Second}))
			<-over.Done()
			stop()
		case <-over.Done():
			stopFirst()
		}
	}()
	defer func() {
		cancel()
		<-second
	}()
	s.create()
	for i, stage := range []string{"a", "a", "b"} {
		time.Sleep(2 * time.Minute) // it is good, and was not approved
		g.set(abstains)
		time.Sleep(time.Minute)
		before := s.passed()
		s.approve("ann")
		time.Sleep(5 * time.Minute)
		if n := s.passed(); n != before || n != i {
			t.Fatalf("%d gates have passed at stage %s, and %d may", n, stage, i)
		}
		g.set(approves)
		time.Sleep(5 * time.Minute)
		if n := s.passed(); n != i+1 {
			t.Fatalf("the measurement is good, and %d gates have passed", n)
		}
	}
	if run := s.status().Run; run.State != stages.Completed {
		t.Errorf("the run is %s (%s)", run.State, run.Reason)
	}
	select {
	case <-crashed:
		return true
	default:
		return false
	}
}

// passed returns the number of passed gates.
func (s *approvalEnv) passed() (n int) {
	for _, st := range s.stages() {
		for _, g := range st.Gates {
			if g.State == stages.Completed {
				n++
			}
		}
	}
	return n
}

// If the store is down, an answer expires, and does not count after the store is back.
func TestAMeasurementGrowsOldWhileTheStoreDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g := newApprovalEnv(t, measured()), &gauge{does: abstains}
		var down bool
		var mu sync.Mutex
		store := faulty.NewPlan(func(c faulty.Call) faulty.Fault {
			mu.Lock()
			defer mu.Unlock()
			if down && c.Write > 0 {
				return faulty.Fault{Before: errors.New("the store is down")}
			}
			return faulty.Fault{}
		}).Store(s.store)
		defer s.drive(s.engine(Config{Name: "one", Store: store, Authority: g, Poll: time.Minute}))()
		s.create()
		time.Sleep(time.Minute)
		s.approve("ann")
		time.Sleep(time.Hour) // by this time it is asked every ten minutes
		setDown := func(to bool) {
			mu.Lock()
			defer mu.Unlock()
			down = to
		}
		setDown(true)
		g.set(approves)
		for n := g.count(); g.count() == n; {
			time.Sleep(time.Second)
		}
		g.set(abstains)
		time.Sleep(3 * time.Minute)
		setDown(false)
		time.Sleep(time.Minute)
		if s.started() {
			t.Error("the stage started on a measurement that was three minutes old")
		}
		g.set(approves)
		time.Sleep(15 * time.Minute)
		if !s.started() {
			t.Error("the gate did not open")
		}
	})
}
