package simulate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
)

const (
	second = time.Second
	minute = time.Minute
)

// fleet returns clusters c1 to cn with the label s, which is the stage that
// they are in.
func fleet(sizes ...int) []placement.Cluster {
	var out []placement.Cluster
	for stage, n := range sizes {
		for range n {
			out = append(out, placement.Cluster{
				Name: fmt.Sprintf("c%d", len(out)+1), Labels: map[string]string{"s": fmt.Sprint(stage + 1)},
			})
		}
	}
	return out
}

// strategy returns stages s1 to sn that pick the clusters of fleet.
func strategy(n int, edit func(*stages.Strategy)) stages.Strategy {
	var s stages.Strategy
	for i := range n {
		s.Stages = append(s.Stages, stages.Stage{
			Name:     fmt.Sprintf("s%d", i+1),
			Selector: selector("s", fmt.Sprint(i+1)),
		})
	}
	if edit != nil {
		edit(&s)
	}
	return s
}

func selector(label, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{label: value}}
}

func number(n int) *intstr.IntOrString {
	v := intstr.FromInt32(int32(n))
	return &v
}

func plan(tb testing.TB, s stages.Strategy, clusters []placement.Cluster) *stages.Plan {
	tb.Helper()
	p, err := simulate.NewPlan(s, clusters)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// line is an event in words.
func line(e simulate.Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", e.At.Duration, e.Type)
	for _, name := range []string{e.Stage, e.Group, e.Cluster, e.Command} {
		if name != "" {
			b.WriteString(" " + name)
		}
	}
	if e.Attempt > 1 {
		fmt.Fprintf(&b, " attempt=%d", e.Attempt)
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	return b.String()
}

// play simulates and returns the events, one a line.
func play(tb testing.TB, p *stages.Plan, w simulate.Environment) (string, simulate.End) {
	tb.Helper()
	var b strings.Builder
	end, err := simulate.Run(p, w, func(e simulate.Event) error {
		b.WriteString(line(e) + "\n")
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return b.String(), end
}

// script checks the events of a simulation.
func script(t *testing.T, p *stages.Plan, w simulate.Environment, want string) simulate.End {
	t.Helper()
	got, end := play(t, p, w)
	var lines strings.Builder
	for l := range strings.Lines(want) {
		if l = strings.TrimSpace(l); l != "" {
			lines.WriteString(l + "\n")
		}
	}
	if diff := cmp.Diff(lines.String(), got); diff != "" {
		t.Errorf("events (-want +got):\n%s\nall:\n%s", diff, got)
	}
	return end
}

func order(at time.Duration, verb stages.Verb) simulate.Order {
	return simulate.Order{At: at, Command: stages.Command{Verb: verb, By: approval.Identity{Name: "ann"}}}
}

func decide(at time.Duration, verdict approval.Verdict, stage string) simulate.Order {
	return simulate.Order{At: at, Command: stages.Command{Verb: stages.Decide, Decision: &approval.Decision{
		Verdict: verdict, By: approval.Identity{Name: "bob"}, Binding: approval.Binding{Stage: stage},
	}}}
}
