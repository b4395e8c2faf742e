// Recording draws docs/watch.svg: a watched run as an animation, frame by frame as slipway watch
// draws it. The run is simulated, so that the file is the same each time.
package main

import (
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
	"github.com/slipway-dev/slipway/watch"
)

// columns and rows are the size of the terminal.
const columns, rows = 80, 12

func main() {
	film, err := record()
	if err == nil && len(os.Args) == 2 {
		err = os.WriteFile(os.Args[1], film, 0o666)
	} else if err == nil {
		_, err = os.Stdout.Write(film)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

// start is when the run starts.
var start = time.Date(2026, time.March, 3, 9, 0, 0, 0, time.UTC)

// record simulates the run once for each frame.
func record() ([]byte, error) {
	plan, err := simulate.NewPlan(strategy(), clusters())
	if err != nil {
		return nil, err
	}
	whole, _, err := until(plan, time.Hour)
	if err != nil {
		return nil, err
	}
	end := whole.Run.Ended.Time()
	var frames []string
	for at := time.Duration(0); ; at += 15 * time.Second {
		status, events, err := until(plan, at)
		if err != nil {
			return nil, err
		}
		m := watch.Model{Status: status, Now: start.Add(at)}
		if !status.Run.IsEnded() {
			m.End, m.Footer = end, []string{"q leaves, the run goes on"}
		}
		frames = append(frames, watch.Frame(m.Observe(events), columns, rows, watch.Style{Color: true}))
		if status.Run.IsEnded() {
			return draw("A staged run that slipway watch shows", frames), nil
		}
	}
}

// until returns the run and its events up to a moment.
func until(plan *stages.Plan, at time.Duration) (fleet.Status, []stages.Event, error) {
	var events []stages.Event
	out, err := simulate.Run(plan, environment(at), func(e simulate.Event) error {
		events = append(events, e.Event)
		return nil
	})
	return fleet.Status{Plan: plan, Run: out.Run}, events, err
}

// strategy has three stages: a wait and an approval of two people after the first, and an approval
// before the last.
func strategy() stages.Strategy {
	three, two := intstr.FromInt32(3), intstr.FromInt32(2)
	tier := func(name string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"tier": name}}
	}
	return stages.Strategy{
		Name: "rollout", Attempts: 3, Backoff: metav1.Duration{Duration: time.Minute}, MinHealthy: metav1.Duration{Duration: 30 * time.Second},
		Stages: []stages.Stage{
			{Name: "canary", Selector: tier("canary"), MaxConcurrency: &two, After: []stages.Task{
				{Type: stages.TimedWait, Wait: metav1.Duration{Duration: 2 * time.Minute}},
				{Type: stages.Approval, Approval: &approval.Policy{Quorums: []approval.Quorum{{Group: "sre", Count: 2}}}},
			}},
			{Name: "prod", Selector: tier("prod"), MaxConcurrency: &three, MaxFailures: &two},
			{Name: "edge", Selector: tier("edge"), Before: []stages.Task{{Type: stages.Approval}}},
		},
	}
}

func clusters() (out []placement.Cluster) {
	for _, tier := range []struct {
		name string
		n    int
	}{{"canary", 2}, {"prod", 9}, {"edge", 1}} {
		for i := range tier.n {
			name := fmt.Sprintf("%s-%d", tier.name, i+1)
			out = append(out, placement.Cluster{Name: name, UID: name, Labels: map[string]string{"tier": tier.name}})
		}
	}
	return out
}

// environment has a cluster that fails once, one that takes longer, and people who approve a while
// after they are asked.
func environment(until time.Duration) simulate.Environment {
	return simulate.Environment{
		Start: start, Until: max(until, 1), Starter: approval.Identity{Name: "alice"},
		Default: simulate.Member{Take: 30 * time.Second},
		Members: map[string]simulate.Member{
			"prod-2": {Take: 15 * time.Second, Fail: 1},
			"prod-3": {Take: 90 * time.Second},
		},
		Answer: func(r approval.Request, opened time.Duration) []simulate.Order {
			if r.Stage == "canary" {
				return []simulate.Order{
					approve(opened+30*time.Second, &r, "alice"), approve(opened+90*time.Second, &r, "bob"),
				}
			}
			return []simulate.Order{approve(opened+time.Minute, &r, "carol")}
		},
	}
}

func approve(at time.Duration, r *approval.Request, by string) simulate.Order {
	who := approval.Identity{Name: by, Groups: []string{"sre"}}
	return simulate.Order{At: at, Command: stages.Command{
		Verb: stages.Decide, By: who, Decision: &approval.Decision{Verdict: approval.Approve, By: who, Binding: r.Binding},
	}}
}
