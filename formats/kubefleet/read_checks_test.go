package kubefleet_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
)

// checking returns a strategy with more fields in its stage.
func checking(more string) string {
	return `
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata: {name: s}
spec: {stages: [{name: a, labelSelector: {}, ` + more + `}]}
`
}

// TestStrategyWithChecksRoundTrips: a strategy may have checks, as in the CRDs of a hub, and they
// are written unchanged.
func TestStrategyWithChecksRoundTrips(t *testing.T) {
	number := func(v float64) *float64 { return &v }
	none := 0
	text := checking(`
  afterStageTasks: [{type: Approval}],
  beforeStageChecks: [{name: quiet, query: alerts, max: 0, empty: Successful}],
  afterStageChecks: [{name: errors, provider: prom, query: 'errors[{{window}}]', min: -1.5, max: 0.01, initialDelay: 30s, interval: 10s, count: 5,
    failureLimit: 1, inconclusiveLimit: 2, consecutiveErrorLimit: 0, expires: 1h}],
  checks: [{name: latency, query: latency, max: 2e3}],
  clusterChecks: [{name: errors, query: sum by (cluster) (errors), clusterLabel: cluster, max: 1}]`)
	want := stages.Stage{
		Name: "a", Selector: &metav1.LabelSelector{},
		Before: []stages.Task{{Type: stages.CheckTask, Checks: []check.Check{{Name: "quiet", Query: "alerts", Max: number(0), Empty: check.Successful}}}},
		After: []stages.Task{{Type: stages.Approval}, {Type: stages.CheckTask, Checks: []check.Check{{
			Name: "errors", Provider: "prom", Query: "errors[{{window}}]", Min: number(-1.5), Max: number(0.01), InitialDelay: metav1.Duration{Duration: 30 * time.Second},
			Interval: metav1.Duration{Duration: 10 * time.Second}, Count: 5, FailureLimit: 1, InconclusiveLimit: 2, ConsecutiveErrorLimit: &none, Expires: metav1.Duration{Duration: time.Hour},
		}}}},
		Checks:        []check.Check{{Name: "latency", Query: "latency", Max: number(2000)}},
		ClusterChecks: []check.Check{{Name: "errors", Query: "sum by (cluster) (errors)", ClusterLabel: "cluster", Max: number(1)}},
	}
	docs, err := kubefleet.Read(strings.NewReader(text), "s.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, docs.Strategies[0].Stages[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestProblemsOfChecksAreAtTheirFields: the errors name the fields of the document.
func TestProblemsOfChecksAreAtTheirFields(t *testing.T) {
	for text, want := range map[string]string{
		"afterStageChecks: [{name: x, query: x}]":                          "spec.stages[0].afterStageChecks[0].max: Required value",
		"afterStageTasks: [{type: Check}]":                                 `spec.stages[0].afterStageTasks[0].type: must be TimedWait or Approval, not "Check"`,
		"checks: [{name: x, query: x, max: much}]":                         "spec.stages[0].checks[0].max: must be a number",
		"checks: [{name: x, query: x, max: 1, count: 2, interval: 10s}]":   "spec.stages[0].checks[0].count: Forbidden",
		"clusterChecks: [{name: x, query: '{{labels}}', max: 1}]":          "spec.stages[0].clusterChecks[0].query: Invalid value",
		"beforeStageChecks: [{name: x, query: x, max: 1, empty: Unknown}]": "must be Successful or Failed or Inconclusive",
		"checks: [{name: x, query: x, max: 1, threshold: 1}]":              "unknown field; known are cluster, clusterLabel",
	} {
		_, err := kubefleet.Read(strings.NewReader(checking(text)), "s.yaml")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want one with %q", text, err, want)
		}
	}
}
