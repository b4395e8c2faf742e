package status

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
)

// A cluster shows its checks while it is measured, after it has ended, and from the events alone,
// like a hub that has just started. A new attempt starts without checks.
func TestClusterShowsItsCheckResults(t *testing.T) {
	least := 1.0
	s := stages.Strategy{Attempts: 2, Stages: []stages.Stage{{
		Name: "all", Selector: everything(), MaxConcurrency: number(9), MaxFailures: number(9),
		ClusterChecks: []check.Check{{Name: "health", Query: "up", Min: &least, InconclusiveLimit: 3}, {Name: "errors", Query: "errors", Max: &least}},
	}}}
	r := newRig(t, "10:00:00", s, false, named("bad", "good")...)
	r.step("", stages.Input{})
	r.finish("10:00:03", "bad", "good")
	r.expectChecks("good", "[health Running   ] [errors Running   ]")
	r.measure("10:00:10", "good", "health", check.Answer{})
	r.expectChecks("good", "[health Running Inconclusive  10:00:10] [errors Running   ]")
	r.measure("10:00:11", "bad", "health", check.Answer{Values: []float64{0}})
	r.expectChecks("bad", "[health Failed Failed 0 10:00:11]")
	r.command("10:00:12", stages.Command{Verb: stages.Retry, Only: stages.OnlyFailed})
	r.expectChecks("bad", "")
	r.measure("10:01:10", "good", "health", check.Answer{Values: []float64{1}})
	r.measure("10:01:11", "good", "errors", check.Answer{Values: []float64{0}})
	r.expectChecks("good", "[health Successful Successful 1 10:01:10] [errors Successful Successful 0 10:01:11]")
}

// expectChecks compares the checks of a cluster: name, phase, last result, value and time.
func (r *rig) expectChecks(cluster, want string) {
	r.t.Helper()
	var got string
	list, _ := clusterOf(r.t, r.status(), cluster)["checkStatus"].([]any)
	for _, c := range list {
		m := c.(map[string]any)
		at, _ := m["lastMeasuredTime"].(string)
		if at != "" {
			at = at[len("2025-07-22T") : len(at)-1]
		}
		value := func(key string) string { v, _ := m[key].(string); return v }
		got += fmt.Sprintf(" [%s %s %s %s %s]", m["name"], m["phase"], value("lastMeasurement"), value("value"), at)
	}
	if got = strings.TrimPrefix(got, " "); got != want {
		r.t.Errorf("the checks of %s are %q, not %q", cluster, got, want)
	}
}

// measure answers a question about a cluster.
func (r *rig) measure(at, cluster, name string, a check.Answer) {
	r.t.Helper()
	r.step(at, stages.Input{})
	for _, q := range r.asked {
		if q.Cluster == cluster && q.Name == name {
			r.step(at, stages.Input{Measured: []check.Measured{{Where: q.Where, Query: name, Answer: a}}})
			return
		}
	}
	r.t.Fatalf("%s of %s is not asked for", name, cluster)
}
