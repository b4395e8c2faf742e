package calendar_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/calendar"
	"github.com/slipway-dev/slipway/stages/planner"
)

// planOf returns a plan with the stages canary (of groups a and b, which the
// label group picks) and rest (without groups, which a cluster without the
// label goes to).
func planOf(t testing.TB, groups map[string]string) *stages.Plan {
	t.Helper()
	group := func(name string) stages.Group {
		return stages.Group{Name: name, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"group": name}}}
	}
	one := func(op metav1.LabelSelectorOperator) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "group", Operator: op}}}
	}
	strategy := stages.Strategy{Name: "s", Stages: []stages.Stage{
		{Name: "canary", Selector: one(metav1.LabelSelectorOpExists), Groups: []stages.Group{group("a"), group("b")}},
		{Name: "rest", Selector: one(metav1.LabelSelectorOpDoesNotExist)},
	}}
	var clusters []placement.Cluster
	for name, group := range groups {
		c := placement.Cluster{Name: name}
		if group != "" {
			c.Labels = map[string]string{"group": group}
		}
		clusters = append(clusters, c)
	}
	plan, err := planner.Plan(strategy, stages.Target{Placement: "p", Snapshot: "s", Selection: "d", Default: "r"}, clusters)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// asked returns the answers for clusters by name.
type asked func(cluster string, at time.Time) stages.Window

func ask(t testing.TB, plan *stages.Plan, rules calendar.Rules) asked {
	t.Helper()
	c, err := rules.For(plan)
	if err != nil {
		t.Fatal(err)
	}
	return func(cluster string, at time.Time) stages.Window {
		pos, ok := plan.Position(cluster)
		if !ok {
			t.Fatalf("no cluster %s", cluster)
		}
		return c.Window(pos, at)
	}
}

// askOne is ask for the only cluster, which has a level.
func askOne(t testing.TB, l calendar.Level) func(at time.Time) stages.Window {
	t.Helper()
	of := ask(t, planOf(t, map[string]string{"paris": ""}), calendar.Rules{Clusters: map[string]calendar.Level{"paris": l}})
	return func(at time.Time) stages.Window { return of("paris", at) }
}

func window(rule string, d time.Duration) calendar.Window {
	return calendar.Window{RRule: rule, Duration: metav1.Duration{Duration: d}}
}

func level(zone string, w ...calendar.Window) calendar.Level {
	return calendar.Level{TimeZone: zone, Windows: w}
}

func utc(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.UTC()
}
