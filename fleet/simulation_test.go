package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/calendar"
	"github.com/slipway-dev/slipway/stages/simulate"
	"github.com/slipway-dev/slipway/stages/step"
)

// modelled is an updater whose clusters behave like the members of a simulation.
type modelled struct {
	environment *simulate.Environment
	begun       time.Time

	mu       sync.Mutex
	attempts map[string]simulate.Attempt
}

func (u *modelled) at() time.Duration { return time.Since(u.begun) }

// attempt returns the attempt of an assignment after change has changed it.
func (u *modelled) attempt(a backend.Assignment, change func(simulate.Attempt) simulate.Attempt) simulate.Attempt {
	u.mu.Lock()
	defer u.mu.Unlock()
	key := a.Cluster.Name + "#" + strconv.Itoa(a.Attempt)
	now, ok := u.attempts[key]
	if !ok {
		member, own := u.environment.Members[a.Cluster.Name]
		if !own {
			member = u.environment.Default
		}
		now = simulate.Attempt{Member: member, Number: a.Attempt, Revision: a.Revision}
	}
	now = change(now)
	u.attempts[key] = now
	return now
}

func (u *modelled) Update(ctx context.Context, a backend.Assignment) (backend.Proof, error) {
	at := u.at()
	done, o := u.attempt(a, func(a simulate.Attempt) simulate.Attempt { return a.Reach(at) }).Update(at)
	select {
	case <-time.After(done - at):
	case <-ctx.Done():
		return backend.Proof{Sent: o.Sent}, ctx.Err()
	}
	return reported(o)
}

func (u *modelled) Observe(_ context.Context, a backend.Assignment) (backend.Proof, error) {
	return reported(u.attempt(a, same).Observe(u.at()))
}

func (u *modelled) Watch(ctx context.Context, a backend.Assignment) iter.Seq2[struct{}, error] {
	return func(yield func(struct{}, error) bool) {
		for yield(struct{}{}, nil) {
			next, more := u.attempt(a, same).Next(u.at())
			wait := make(<-chan time.Time)
			if more {
				wait = time.After(next - u.at())
			}
			select {
			case <-wait:
			case <-ctx.Done():
				yield(struct{}{}, ctx.Err())
				return
			}
		}
	}
}

func same(a simulate.Attempt) simulate.Attempt { return a }

func reported(o stages.Observation) (backend.Proof, error) {
	if o.Unreachable {
		return backend.Proof{Sent: o.Sent}, errors.New(o.Message)
	}
	return backend.Proof{
		Sent: o.Sent, Applied: o.Applied, Unchanged: o.Unchanged, Revision: o.Revision,
		Current: o.Current, Healthy: o.Healthy, Failed: o.Failed, Message: o.Message,
	}, nil
}

// staged is a random run with all its events. No two events happen at the same moment, except
// consequences of one event.
type staged struct {
	r           *rand.Rand
	strategy    stages.Strategy
	clusters    []placement.Cluster
	environment simulate.Environment
	rules       calendar.Rules
	taken       map[time.Duration]bool
	// outage reports whether a cluster is unreachable for a while.
	outage bool
}

// moment returns an unused moment, up to most.
func (s *staged) moment(most time.Duration) time.Duration {
	for {
		d := time.Duration(1+s.r.Int64N(int64(most/time.Millisecond))) * time.Millisecond
		if !s.taken[d] {
			s.taken[d] = true
			return d
		}
	}
}

func (s *staged) one(in int) bool { return s.r.IntN(in) == 0 }

func stageIt(seed uint64) *staged {
	s := &staged{r: rand.New(rand.NewPCG(seed, 6)), taken: map[time.Duration]bool{}}
	s.strategy = stages.Strategy{
		Profile:  []stages.Profile{stages.Staged, stages.ClusterUpdate, stages.Workflow}[s.r.IntN(3)],
		Attempts: s.r.IntN(4), Backoff: metav1.Duration{Duration: time.Duration(s.r.IntN(3)) * 7 * time.Second},
	}
	if s.one(3) {
		s.strategy.MinHealthy.Duration = 13 * time.Second
	}
	if s.one(4) {
		s.strategy.ProgressDeadline.Duration = 5 * time.Minute
	}
	for i := range 1 + s.r.IntN(3) {
		s.stage(i)
	}
	s.environment = simulate.Environment{Until: time.Hour, Members: map[string]simulate.Member{}}
	for i := range s.clusters {
		s.environment.Members[s.clusters[i].Name] = s.member()
	}
	s.windows()
	s.commands()
	return s
}

func (s *staged) tasks(longest time.Duration) (out []stages.Task) {
	if s.one(3) {
		out = append(out, stages.Task{Type: stages.TimedWait, Wait: metav1.Duration{Duration: s.moment(longest)}})
	}
	if s.one(4) {
		out = append(out, stages.Task{Type: stages.Approval})
	}
	return out
}

func (s *staged) stage(i int) {
	label := func(key string, n int) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: strconv.Itoa(n)}}
	}
	few := func() *intstr.IntOrString { return new(intstr.FromInt32(1 + s.r.Int32N(3))) }
	st := stages.Stage{
		Name: fmt.Sprintf("s%d", i), Selector: label("s", i), MaxConcurrency: few(), MaxFailures: few(),
		Before: s.tasks(time.Minute), After: s.tasks(time.Minute), StrictFailures: s.one(5),
	}
	groups := max(0, s.r.IntN(4)-1)
	for g := range groups {
		group := stages.Group{Name: fmt.Sprintf("g%d", g), Selector: label("g", g)}
		if s.one(3) {
			group.Before, group.After = s.tasks(time.Minute), s.tasks(time.Minute)
		}
		st.Groups = append(st.Groups, group)
	}
	for n := range 1 + s.r.IntN(5) {
		s.clusters = append(s.clusters, placement.Cluster{
			Name:   fmt.Sprintf("c%d", len(s.clusters)),
			Labels: map[string]string{"s": strconv.Itoa(i), "g": strconv.Itoa(n % max(groups, 1))},
		})
	}
	s.strategy.Stages = append(s.strategy.Stages, st)
}

func (s *staged) member() simulate.Member {
	m := simulate.Member{Take: s.moment(40 * time.Second)}
	if s.one(4) {
		m.Fail = 1 + s.r.IntN(2)
	}
	if s.one(5) && !s.outage { // an engine does not promise the order of two outages
		s.outage = true
		from := s.moment(2 * time.Minute)
		m.Unreachable = []simulate.Interval{{From: from, To: from + s.moment(time.Minute)}}
	}
	if s.one(5) {
		from := s.moment(2 * time.Minute)
		m.Unhealthy = []simulate.Interval{{From: from, To: from + s.moment(time.Minute)}}
	}
	return m
}

// windows lets some clusters start only in one random minute of each hour.
func (s *staged) windows() {
	if !s.one(3) {
		return
	}
	s.rules.Clusters = map[string]calendar.Level{}
	for _, c := range s.clusters {
		if s.one(3) {
			s.rules.Clusters[c.Name] = calendar.Level{Windows: []calendar.Window{{
				RRule: fmt.Sprintf("FREQ=HOURLY;BYMINUTE=%d", 2+s.r.IntN(20)), Duration: metav1.Duration{Duration: time.Minute},
			}}}
		}
	}
}

func (s *staged) commands() {
	some := func() string { return s.clusters[s.r.IntN(len(s.clusters))].Name }
	for range s.r.IntN(4) {
		c := stages.Command{By: approval.Identity{Name: "ann"}}
		switch s.r.IntN(7) {
		case 0:
			c.Verb = stages.Stop
			s.order(stages.Command{Verb: stages.Start, By: c.By}, 5*time.Minute)
		case 1:
			c.Verb, c.Scope, c.Name = stages.Skip, stages.SkipCluster, some()
		case 2:
			c.Verb, c.Scope, c.Name = stages.Skip, stages.SkipStage, s.strategy.Stages[s.r.IntN(len(s.strategy.Stages))].Name
		case 3:
			c.Verb, c.Scope, c.Name = stages.Skip, stages.SkipAfterWait, s.strategy.Stages[0].Name
		case 4:
			c.Verb = stages.Start
		case 5:
			c.Verb, c.Only = stages.Retry, []stages.Only{"", stages.OnlyFailed, stages.OnlySkipped}[s.r.IntN(3)]
		default:
			s.environment.Churn = append(s.environment.Churn, simulate.Change{At: s.moment(3 * time.Minute), Cluster: some()})
			continue
		}
		s.order(c, 4*time.Minute)
	}
}

func (s *staged) order(c stages.Command, most time.Duration) {
	s.environment.Orders = append(s.environment.Orders, simulate.Order{At: s.moment(most), Command: c})
}

// simulated carries out the run in virtual time. Its requests are approved some time later, which
// makes it a new run, and so on.
func (s *staged) simulated(t *testing.T, p *stages.Plan) ([]string, simulate.End) {
	for {
		var lines []string
		asked := map[string]time.Duration{}
		end, err := simulate.Run(p, s.environment, func(ev simulate.Event) error {
			lines = append(lines, eventLine(ev.At.Duration, s.environment.Start, &ev.Event))
			if ev.Type == stages.ApprovalRequested {
				asked[ev.Request] = ev.At.Duration
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		open := step.Requests(p, &end.Run)
		if len(open) == 0 || len(s.environment.Orders) > 30 {
			return lines, end
		}
		req, by := open[0], approval.Identity{Name: "bob"}
		d := approval.Decision{Verdict: approval.Approve, By: by, Binding: approval.Binding{Stage: req.Stage, Group: req.Group, When: req.When}}
		at := min(asked[req.Name]+s.moment(time.Minute), s.environment.Until)
		s.environment.Orders = append(s.environment.Orders, simulate.Order{At: at, Command: stages.Command{Verb: stages.Decide, By: by, Decision: &d}})
		if at == s.environment.Until {
			return lines, end
		}
	}
}

func eventLine(at time.Duration, start time.Time, e *stages.Event) string {
	until := ""
	if !e.Until.IsZero() {
		until = " until " + e.Until.Sub(start).String()
	}
	return fmt.Sprintf("%v %s %s/%s %s #%d x%d by %q %s%s: %s", at, e.Type, e.Stage, e.Group, e.Cluster, e.Attempt, e.Count, e.By, e.Command, until, e.Message)
}

// carriedOut carries out the run with an engine, and returns its events.
func (s *staged) carriedOut(t *testing.T) (lines []string, end stages.Outline, simulated func() ([]string, simulate.End)) {
	w := &engineEnv{t: t, store: memory.NewStore(), fleet: memory.NewFleet(s.clusters...)}
	w.source = memory.NewSource(plain("v1"))
	u := &modelled{environment: &s.environment, attempts: map[string]simulate.Attempt{}}
	e := w.newEngine(fleet.Config{
		Name: "one", Updater: u, CallTimeout: 2 * time.Hour, Lease: 6 * time.Hour,
		Windows: fleet.WindowsFunc(func(context.Context, *stages.Plan) (calendar.Rules, error) { return s.rules, nil }),
	})
	w.declare(e, smallPlacement("p"))
	w.create(e, fleet.RunSpec{Name: simulate.RunName, Placement: "p", Strategy: s.strategy, Hold: true})
	status, err := e.Run(simulate.RunName).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stop := running(t, e)
	time.Sleep(time.Second)
	u.begun = time.Now()
	s.environment.Start = u.begun
	if s.environment.Calendar, err = s.rules.For(status.Plan); err != nil {
		t.Fatal(err)
	}
	want, expected := s.simulated(t, status.Plan)
	s.play(t, e, w, expected.At.Duration)
	stop()
	for _, ev := range w.past(10_000) {
		switch ev.Type {
		case stages.SnapshotTaken, stages.SelectionChanged, stages.RunCreated, stages.RunTaken:
		default:
			if at := ev.Time.Sub(s.environment.Start); ev.Run != "" && at <= expected.At.Duration {
				lines = append(lines, eventLine(at, s.environment.Start, &ev))
			}
		}
	}
	if status, err = w.newEngine(fleet.Config{}).Run(simulate.RunName).Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	return lines, status.Run.Outline(status.Plan), func() ([]string, simulate.End) { return want, expected }
}

// play plays the commands of operators and the events of the fleet, until the end.
func (s *staged) play(t *testing.T, e *fleet.Engine, w *engineEnv, end time.Duration) {
	type step struct {
		at time.Duration
		do func()
	}
	steps := []step{{0, func() { s.must(t, e.Run(simulate.RunName).Command(t.Context(), stages.Command{Verb: stages.Start})) }}}
	for _, o := range s.environment.Orders {
		steps = append(steps, step{o.At, func() { s.give(t, w, e, o.Command) }})
	}
	for _, c := range s.environment.Churn {
		steps = append(steps, step{c.At, func() { w.fleet.Remove(c.Cluster) }})
	}
	slices.SortStableFunc(steps, func(a, b step) int { return int(a.at - b.at) })
	for _, st := range steps {
		time.Sleep(time.Until(s.environment.Start.Add(st.at)))
		st.do()
	}
	time.Sleep(time.Until(s.environment.Start.Add(end)) + time.Millisecond)
}

func (s *staged) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// give gives a command to the engine. A decision becomes an answer to the open request.
func (s *staged) give(t *testing.T, w *engineEnv, e *fleet.Engine, c stages.Command) {
	if c.Verb != stages.Decide {
		s.must(t, fleet.LateCommand(t.Context(), e, w.store, simulate.RunName, c))
		return
	}
	status, err := e.Run(simulate.RunName).Status(t.Context())
	s.must(t, err)
	for _, req := range step.Requests(status.Plan, &status.Run) {
		if b := c.Decision.Binding; req.Stage == b.Stage && req.Group == b.Group && req.When == b.When {
			s.must(t, e.Run(simulate.RunName).Command(t.Context(), stages.Command{Verb: stages.Decide, Name: req.Name, By: c.By, Decision: &approval.Decision{Verdict: c.Decision.Verdict}}))
		}
	}
}

// A simulation and the engine produce the same events at the same moments: both carry out the same
// plan by the same rules, and only the clusters are simulated.
func TestSimulationEqualsTheEngine(t *testing.T) {
	all := 200
	if soak() {
		all = 5000
	}
	n := sampled(all)
	var what sync.Map
	for seed := range uint64(n) {
		t.Run(strconv.Itoa(int(seed)), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := stageIt(seed)
				got, outline, simulated := s.carriedOut(t)
				want, end := simulated()
				if d := cmp.Diff(want, got); d != "" {
					t.Fatalf("the engine differs from the simulation (-simulation +engine):\n%s", d)
				}
				if outline.Run != end.State {
					t.Errorf("the run is %s, simulated %s", outline.Run, end.State)
				}
				what.Store(string(end.State), true)
				for _, l := range got {
					what.Store(strings.Fields(l)[1], true)
				}
			})
		})
	}
	if n < all {
		return // a sample need not have everything
	}
	for _, name := range []string{
		string(stages.Completed), string(stages.Failed), string(stages.Stopped), string(stages.Skipped),
		string(stages.ClusterRetrying), string(stages.ClusterPending), string(stages.ClusterUnhealthy), string(stages.ClusterSkipped),
		string(stages.WaitEnded), string(stages.ApprovalAccepted), string(stages.RunResumed), string(stages.RunRetried), string(stages.CommandRefused),
	} {
		if _, ok := what.Load(name); !ok {
			t.Errorf("in no run there was %s", name)
		}
	}
}
