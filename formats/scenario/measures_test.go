package scenario_test

import (
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/formats/scenario"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
)

const measured = `
clusters: [{name: a}, {name: b}, {name: c}]
strategy:
  rollback: {}
  stages:
  - name: all
    labelSelector: {}
    maxFailures: 1
    checks: [{name: latency, query: latency, max: 200, interval: 10s, failureLimit: 1}]
    clusterChecks: [{name: errors, query: errors, max: 0.1, initialDelay: 20s}]
    afterStageChecks: [{name: users, query: users, min: 10}]
take: 10s
`

// TestScenarioSetsMeasurements: a measurement without a value is good; the later of two
// values for the same measurement counts.
func TestScenarioSetsMeasurements(t *testing.T) {
	for _, c := range []struct {
		measures, want string
		state          stages.State
	}{
		{measures: "[]", state: stages.Completed},
		{measures: "[{check: errors, cluster: b, value: 0.5}]", state: stages.Completed, want: "ClusterFailed b"},
		{measures: "[{check: errors, value: 0.5}]", state: stages.Failed, want: "RunFailed 2 clusters of stage all have failed, and 1 may"},
		{measures: "[{check: errors, value: 0.5}, {check: errors, value: 0}]", state: stages.Completed},
		{measures: "[{check: latency, value: 300, from: 15s}, {check: latency, value: 1, from: 1m}]", state: stages.Failed, want: "check latency of stage all was bad 2 times"},
		{measures: "[{check: latency, value: 300, from: 15s}, {check: latency, value: 1, from: 35s}]", state: stages.Completed, want: "CheckMeasured"},
		{measures: "[{check: users, value: down}]", state: stages.Failed, want: "RunFailed check users is Error: the provider is down"},
		{measures: "[{check: users, value: empty}]", state: stages.Failed, want: "checks after stage all have expired"},
		{measures: "[{check: users, value: NaN}]", state: stages.Failed, want: "not a number (NaN)"},
	} {
		s, err := scenario.Read(strings.NewReader(measured+"measures: "+c.measures), "test.yaml")
		if err != nil {
			t.Fatal(err)
		}
		var told strings.Builder
		end, err := simulate.Run(s.Plan, s.Environment, func(e simulate.Event) error {
			told.WriteString(string(e.Type) + " " + strings.TrimSpace(e.Cluster+" "+e.Message) + "\n")
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if end.Run.State != c.state || !strings.Contains(told.String(), c.want) {
			t.Errorf("%s: the run is %s, want %s with %q:\n%s", c.measures, end.Run.State, c.state, c.want, told.String())
		}
	}
}

// TestProblemsOfMeasures: measurements of an unknown check are errors.
func TestProblemsOfMeasures(t *testing.T) {
	for measures, want := range map[string]string{
		"[{check: nothing, value: 1}]":            "measures[0].check: the strategy has no check nothing",
		"[{check: errors, cluster: d, value: 1}]": "measures[0].cluster: there is no cluster d",
		"[{check: errors, value: much}]":          "measures[0].value: must be a number, NaN, empty or down",
		"[{check: errors}]":                       "measures[0].value: is required",
	} {
		_, err := scenario.Read(strings.NewReader(measured+"measures: "+measures), "test.yaml")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want one with %q", measures, err, want)
		}
	}
}

// TestScenarioSetsResultsOfCheckObjects: a check object without a value is good; 0 is a failed
// one.
func TestScenarioSetsResultsOfCheckObjects(t *testing.T) {
	for measures, want := range map[string]stages.State{
		"[]":                                     stages.Completed,
		"[{check: smoke, value: 1}]":             stages.Completed,
		"[{check: smoke, value: 0}]":             stages.Failed,
		"[{check: smoke, cluster: b, value: 0}]": stages.Failed,
		"[{check: smoke, value: NaN}]":           stages.Failed,
	} {
		text := strings.Replace(measured, "clusterChecks: [", "clusterChecks: [{name: smoke, object: smoke}, ", 1)
		text = strings.Replace(text, "maxFailures: 1", "maxFailures: 0", 1)
		s, err := scenario.Read(strings.NewReader(text+"measures: "+measures), "test.yaml")
		if err != nil {
			t.Fatal(err)
		}
		end, err := simulate.Run(s.Plan, s.Environment, func(simulate.Event) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if end.Run.State != want {
			t.Errorf("%s: the run is %s (%s), want %s", measures, end.Run.State, end.Run.Reason, want)
		}
	}
}
