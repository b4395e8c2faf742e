package kubefleet_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/stages"
)

// rolledBack returns a strategy with more fields in its spec.
func rolledBack(more string) string {
	return `
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata: {name: s}
spec: {stages: [{name: a, labelSelector: {}}]` + more + `}
`
}

// TestStrategyWithARollbackPolicy: a strategy may request a rollback, as in the CRDs of a
// hub, and the request is written unchanged.
func TestStrategyWithARollbackPolicy(t *testing.T) {
	for _, c := range []struct {
		text string
		want *stages.RollbackPolicy
		err  string
	}{
		{text: ""},
		{text: ", rollback: null"},
		{text: ", rollback: {}", want: &stages.RollbackPolicy{}},
		{text: ", rollback: {causes: [GateRejected, BudgetExceeded, Command], newClusters: Remove, approval: {}}", want: &stages.RollbackPolicy{
			Causes: []stages.RollbackCause{stages.GateRejected, stages.BudgetExceeded, stages.OnCommand}, New: stages.RemoveNew, Approval: &approval.Policy{},
		}},
		{text: ", rollback: {causes: [Command], newClusters: Leave, approval: {quorums: [{count: 2}, {group: sre, count: 1}], forbidStarter: true, distinctApprovers: true, expires: 24h, requireBinding: true}}", want: &stages.RollbackPolicy{
			Causes: []stages.RollbackCause{stages.OnCommand}, New: stages.LeaveNew, Approval: &approval.Policy{
				Quorums: []approval.Quorum{{Count: 2}, {Group: "sre", Count: 1}}, ForbidStarter: true, DistinctApprovers: true, Expires: metav1.Duration{Duration: 24 * time.Hour}, RequireBinding: true,
			},
		}},
		{text: ", rollback: true", err: "spec.rollback: must be an object"},
		{text: ", rollback: {causes: []}", err: "spec.rollback.causes: must name a cause; leave it out for BudgetExceeded and GateRejected"},
		{text: ", rollback: {causes: [Failure]}", err: `spec.rollback.causes[0]: must be BudgetExceeded or GateRejected or Command, not "Failure"`},
		{text: ", rollback: {causes: [Command, Command]}", err: "spec.rollback.causes[1]: Duplicate value"},
		{text: ", rollback: {newClusters: Keep}", err: `spec.rollback.newClusters: must be Remove or Leave, not "Keep"`},
		{text: ", rollback: {approval: {quorums: [{count: 0}]}}", err: "must be a number of at least 1"},
		{text: ", rollback: {automatic: true}", err: "unknown field; known are approval, causes, newClusters"},
	} {
		docs, err := kubefleet.Read(strings.NewReader(rolledBack(c.text)), "s.yaml")
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: the error is %v, want one with %q", c.text, err, c.err)
			}
		case err != nil:
			t.Errorf("%s: %v", c.text, err)
		default:
			if diff := cmp.Diff(c.want, docs.Strategies[0].Rollback); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.text, diff)
			}
		}
	}
}

// TestStrategyWithProgressDeadlineAndBudget: without a deadline a cluster is retried without end,
// so that no budget is ever exceeded.
func TestStrategyWithProgressDeadlineAndBudget(t *testing.T) {
	const deadline, reach, failures = "progressDeadline: 10m", "unreachableDeadline: 30m", "maxFailures: 25%"
	text := strings.Replace(rolledBack(", "+deadline+", "+reach), "labelSelector: {}", "labelSelector: {}, "+failures, 1)
	docs := read(t, text)
	quarter := intstr.FromString("25%")
	if s := docs.Strategies[0]; s.ProgressDeadline.Duration != 10*time.Minute || s.UnreachableDeadline.Duration != 30*time.Minute || !cmp.Equal(s.Stages[0].MaxFailures, &quarter) {
		t.Errorf("%+v", s)
	}
	if s := read(t, strings.Replace(text, failures, "maxFailures: 0", 1)).Strategies[0]; s.Stages[0].MaxFailures.IntValue() != 0 {
		t.Errorf("%+v", s)
	}
	for _, c := range []struct{ before, wrong, want string }{
		{deadline, "progressDeadline: 0s", "spec.progressDeadline: must be more than 0s and at most 365 days (8760h), not 0s"},
		{reach, "unreachableDeadline: 8761h", "spec.unreachableDeadline: must be more than 0s and at most 365 days (8760h), not 8761h"},
		{failures, "maxFailures: -1", "spec.stages[0].maxFailures"},
		{failures, "maxFailures: 101%", "spec.stages[0].maxFailures"},
		{failures, "maxFailures: true", "must be a number of at least 0, or a percentage"},
	} {
		_, err := kubefleet.Read(strings.NewReader(strings.Replace(text, c.before, c.wrong, 1)), "s.yaml")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want one with %q", c.wrong, err, c.want)
		}
	}
}

// TestARunIsNotBegunWithRollback: the state rolls back the changes of a run, and a run that begins
// has made none.
func TestARunIsNotBegunWithRollback(t *testing.T) {
	docs := read(t, rolledBack("")+`---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: p}
spec: {resourceSelectors: [{group: "", version: v1, kind: Namespace, name: web}], strategy: {type: External}}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateRun
metadata: {name: r}
spec: {placementName: p, stagedRolloutStrategyName: s, state: Rollback}
`)
	if docs.Runs[0].State != v1beta1.StateRollback {
		t.Errorf("%+v", docs.Runs[0])
	}
	if _, err := docs.RunSpec("r"); err == nil || !strings.Contains(err.Error(), "spec.state") {
		t.Errorf("the error is %v", err)
	}
}
