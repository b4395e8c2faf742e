package watch_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
	"github.com/slipway-dev/slipway/stages/step"
	"github.com/slipway-dev/slipway/watch"
)

var update = flag.Bool("update", false, "rewrite the files of expected output in testdata")

// golden compares with a file of expected output.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// clusters are named by their tier, and have the region of their group as a label.
func clusters(tier string, n int) (out []placement.Cluster) {
	regions := []string{"ap-south", "eu-west", "us-east", "us-west"}
	for i := range n {
		out = append(out, placement.Cluster{
			Name: fmt.Sprintf("%s-%04d", tier, i), UID: fmt.Sprintf("%s-%d", tier, i),
			Labels: map[string]string{"tier": tier, "region": regions[i%len(regions)]},
		})
	}
	return out
}

func tier(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"tier": name}}
}

func number(n int) *intstr.IntOrString {
	v := intstr.FromInt32(int32(n))
	return &v
}

// rollout is a strategy of three stages: a wait after the first, and an approval of two people
// after the second.
func rollout() stages.Strategy {
	return stages.Strategy{
		Name: "rollout", Attempts: 2, Backoff: metav1.Duration{Duration: time.Minute}, MinHealthy: metav1.Duration{Duration: 30 * time.Second},
		Stages: []stages.Stage{
			{
				Name: "canary", Selector: tier("canary"), MaxConcurrency: number(2),
				After: []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Hour}}, {Type: stages.Approval, Approval: &approval.Policy{Quorums: []approval.Quorum{{Group: "sre", Count: 2}}}}},
			},
			{
				Name: "prod", Selector: tier("prod"), MaxConcurrency: number(6), MaxFailures: number(3),
				Before: []stages.Task{{Type: stages.Approval}},
			},
			{Name: "edge", Selector: tier("edge")},
		},
	}
}

func fleetOf() []placement.Cluster {
	return slices.Concat(clusters("canary", 3), clusters("prod", 20), clusters("edge", 2))
}

// scene is a run at a moment.
type scene struct {
	strategy stages.Strategy
	clusters []placement.Cluster
	world    simulate.Environment
	at       time.Duration
	// then continues the run from its current state.
	then   func(*fleet.Status)
	footer func(m watch.Model) []string
	end    time.Duration
	// rollback is the rollback of the run.
	rollback fleet.Rollback
}

func (s *scene) model(t *testing.T) watch.Model {
	t.Helper()
	p, err := simulate.NewPlan(s.strategy, s.clusters)
	if err != nil {
		t.Fatal(err)
	}
	w := s.world
	w.Start, w.Until = time.Date(2026, time.March, 3, 9, 0, 0, 0, time.UTC), s.at
	w.Default.Take = cmp.Or(w.Default.Take, 2*time.Minute)
	var events []stages.Event
	m := watch.Model{Now: w.Start.Add(s.at), Status: fleet.Status{Plan: p}}
	if s.at >= 0 {
		end, err := simulate.Run(p, w, func(e simulate.Event) error {
			events = append(events, e.Event)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		m.Status.Run = end.Run
	} else {
		m.Now = w.Start
		m.Status.Run = step.NewRun(p, "run", "uid", approval.Identity{Name: "alice"}, true, w.Start)
	}
	if s.then != nil {
		s.then(&m.Status)
	}
	if s.end > 0 {
		m.End = m.Now.Add(s.end)
	}
	m.Rollback = s.rollback
	m = m.Observe(events)
	if s.footer != nil {
		m.Footer = s.footer(m)
	}
	return m
}

func approveAt(at time.Duration, stage string, when approval.When, by string) simulate.Order {
	return simulate.Order{At: at, Command: stages.Command{
		Verb: stages.Decide, By: approval.Identity{Name: by, Groups: []string{"sre"}},
		Decision: &approval.Decision{
			Verdict: approval.Approve, By: approval.Identity{Name: by, Groups: []string{"sre"}}, Comment: "error rate is low",
			Binding: approval.Binding{Stage: stage, When: when},
		},
	}}
}

func orderAt(at time.Duration, c stages.Command) simulate.Order {
	c.By = approval.Identity{Name: "bob"}
	return simulate.Order{At: at, Command: c}
}

// toProd passes the gates up to the stage prod, which begins at 66 min.
func toProd() []simulate.Order {
	return []simulate.Order{
		approveAt(10*time.Minute, "canary", approval.After, "alice"),
		approveAt(20*time.Minute, "canary", approval.After, "bob"),
		approveAt(66*time.Minute, "prod", approval.Before, "carol"),
	}
}

// closed is a calendar in which some clusters have no window before noon.
type closed struct{ from int }

func (c closed) Window(pos int, at time.Time) stages.Window {
	noon := time.Date(2026, time.March, 3, 12, 0, 0, 0, time.UTC)
	if pos < c.from || !at.Before(noon) {
		return stages.Window{Open: true}
	}
	return stages.Window{Limited: true, Until: noon, Reason: "outside window nightly"}
}

func troubled() map[string]simulate.Member {
	return map[string]simulate.Member{
		"prod-0000": {Take: time.Minute, Fail: simulate.Always},
		"prod-0001": {Take: time.Minute, Fail: 1},
		"prod-0004": {Take: 4 * time.Minute, Fail: 1},
		"prod-0005": {Take: time.Minute, Unhealthy: []simulate.Interval{{From: 0}}},
		"prod-0002": {Take: 2 * time.Minute, Unreachable: []simulate.Interval{{From: 0}}},
		"prod-0003": {Take: time.Minute, Fail: simulate.Always},
	}
}

// many returns 10,000 clusters, most of them in four groups of one stage; one of 97 fails.
func many() *scene {
	s := stages.Strategy{Name: "many", Attempts: 1, Stages: []stages.Stage{
		{Name: "canary", Selector: tier("canary"), MaxConcurrency: number(10)},
		{
			Name: "prod", Selector: tier("prod"), MaxFailures: number(200),
			After: []stages.Task{{Type: stages.Approval}},
		},
		{Name: "edge", Selector: tier("edge"), MaxConcurrency: number(50)},
	}}
	for _, r := range []string{"ap-south", "eu-west", "us-east", "us-west"} {
		s.Stages[1].Groups = append(s.Stages[1].Groups, stages.Group{
			Name: r, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"region": r}}, MaxConcurrency: number(40),
		})
	}
	all := slices.Concat(clusters("canary", 100), clusters("prod", 9800), clusters("edge", 100))
	members := map[string]simulate.Member{}
	for i := 0; i < 9800; i += 97 {
		members[fmt.Sprintf("prod-%04d", i)] = simulate.Member{Take: time.Minute, Fail: simulate.Always}
	}
	return &scene{strategy: s, clusters: all, world: simulate.Environment{Members: members}, at: 75*time.Minute + 10*time.Second, end: 41 * time.Minute}
}

// wide returns 30 stages; the current one has 40 groups.
func wide() *scene {
	s := stages.Strategy{Name: "wide", Attempts: 1}
	var all []placement.Cluster
	for i := range 30 {
		name := fmt.Sprintf("wave-%02d", i)
		st := stages.Stage{Name: name, Selector: tier(name)}
		all = append(all, clusters(name, 2)...)
		if i == 12 {
			all = all[:len(all)-2]
			for j := range 40 {
				cluster := placement.Cluster{Name: fmt.Sprintf("%s-%02d", name, j), UID: fmt.Sprint(j), Labels: map[string]string{"tier": name}}
				all = append(all, cluster)
				st.Groups = append(st.Groups, stages.Group{Name: fmt.Sprintf("zone-%02d", j), Clusters: []string{cluster.Name}})
				if j%3 == 0 {
					st.Groups[j].Before = []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Hour}}}
				}
			}
		}
		s.Stages = append(s.Stages, st)
	}
	return &scene{strategy: s, clusters: all, at: 50 * time.Minute, footer: keys, world: simulate.Environment{Members: map[string]simulate.Member{
		"wave-12-01": {Take: time.Hour}, "wave-12-38": {Take: time.Hour},
	}}}
}

func keys(watch.Model) []string { return []string{"q leaves, the run goes on"} }

func scenes() map[string]*scene {
	domain := rollout()
	domain.Cap = "night"
	back := rollout()
	back.Rollback = &stages.RollbackPolicy{}
	return map[string]*scene{
		"fresh": {at: -1},
		"gates": {
			world: simulate.Environment{Orders: toProd()[:1]}, at: 15 * time.Minute, end: 3 * time.Hour,
			footer: func(m watch.Model) []string {
				open := step.Requests(m.Status.Plan, &m.Status.Run)
				return append(watch.Question(m.Status.Plan, &open[0]), "  y approves   r rejects   n leaves it open")
			},
		},
		"in-flight": {world: simulate.Environment{Orders: toProd()}, at: 68*time.Minute + 10*time.Second, footer: keys, end: 12 * time.Minute},
		"trouble":   {world: simulate.Environment{Orders: toProd(), Members: troubled()}, at: 70*time.Minute + 20*time.Second, footer: keys},
		"windows":   {world: simulate.Environment{Orders: toProd(), Calendar: closed{from: 9}}, at: 72 * time.Minute, footer: keys, end: 3 * time.Hour},
		"cap":       {strategy: domain, world: simulate.Environment{Orders: append(toProd()[:2], approveAt(68*time.Minute, "prod", approval.Before, "carol")), Slots: 1}, at: 90 * time.Minute, footer: keys},
		"queued": {at: -1, then: func(s *fleet.Status) {
			s.Run = step.NewRun(s.Plan, "run", "uid", approval.Identity{Name: "alice"}, false, s.Run.Created.Time())
			s.Run = step.Step(s.Plan, s.Run, stages.Input{Now: s.Run.Created.Time(), Blocked: "web-1"}).Run
		}},
		"stopped": {
			world: simulate.Environment{Orders: append(toProd(), orderAt(67*time.Minute, stages.Command{Verb: stages.Stop, Message: "errors in the shop"}))},
			at:    80 * time.Minute, footer: keys,
		},
		"completed": {world: simulate.Environment{Orders: toProd()}, at: 5 * time.Hour},
		"rolled-back": {
			strategy: back, world: simulate.Environment{Orders: toProd(), Default: simulate.Member{Take: 2 * time.Minute, Fail: simulate.Always}, Members: map[string]simulate.Member{
				"canary-0000": {Take: time.Minute}, "canary-0001": {Take: time.Minute}, "canary-0002": {Take: time.Minute},
			}},
			at: 5 * time.Hour, rollback: fleet.Rollback{By: "run-back", State: stages.Completed},
		},
		"skipped": {
			world: simulate.Environment{Orders: append(toProd(), orderAt(time.Minute, stages.Command{Verb: stages.Skip, Scope: stages.SkipCluster, Name: "edge-0001"}))},
			at:    5 * time.Hour,
		},
		"unreachable": {
			world: simulate.Environment{Orders: toProd(), Members: troubled()}, at: 70*time.Minute + 20*time.Second, footer: keys,
			then: func(s *fleet.Status) {
				for i := range s.Run.Form(runstate.Key{}).Unsuccessful {
					s.Run.Form(runstate.Key{}).Unsuccessful[i].Reason = "connection refused (eu-1-dns-0c4e7f.hcp.westeurope.azmk8s.io:443, 10.0.0.1:443): apply ConfigMap.v1 shop/web"
				}
			},
		},
		"many": many(),
		"wide": wide(),
	}
}

func TestFrames(t *testing.T) {
	t.Parallel()
	for name, s := range scenes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if s.strategy.Name == "" {
				s.strategy = rollout()
			}
			if s.clusters == nil {
				s.clusters = fleetOf()
			}
			m := s.model(t)
			for _, size := range [][2]int{{80, 24}, {200, 60}} {
				plain := watch.Frame(m, size[0], size[1], watch.Style{})
				golden(t, fmt.Sprintf("%s-%dx%d.txt", name, size[0], size[1]), plain+"\n")
				color := watch.Frame(m, size[0], size[1], watch.Style{Color: true})
				golden(t, fmt.Sprintf("%s-%dx%d.color", name, size[0], size[1]), strings.ReplaceAll(color, "\x1b", "\\e")+"\n")
				if got := ansi.Strip(color); got != plain {
					t.Errorf("colours change the text:\n%s", gocmp.Diff(plain, got))
				}
				if ascii := watch.Frame(m, size[0], size[1], watch.Style{ASCII: true}); strings.ContainsFunc(ascii, func(r rune) bool { return r > 126 }) {
					t.Errorf("not ASCII:\n%s", ascii)
				}
			}
		})
	}
}
