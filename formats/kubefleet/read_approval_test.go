package kubefleet_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/formats/kubefleet"
)

// TestStrategyWithAnApprovalPolicy: an Approval may have an approval policy, as in the CRDs of a
// hub.
func TestStrategyWithAnApprovalPolicy(t *testing.T) {
	for _, c := range []struct {
		text string
		want *approval.Policy
		err  string
	}{
		{text: "", want: nil},
		{text: ", approval: {}", want: &approval.Policy{}},
		{text: ", approval: {quorums: [{count: 2}, {group: security, count: 1}], forbidStarter: true, distinctApprovers: true, expires: 24h, requireBinding: true}", want: &approval.Policy{
			Quorums: []approval.Quorum{{Count: 2}, {Group: "security", Count: 1}}, ForbidStarter: true, DistinctApprovers: true, Expires: metav1.Duration{Duration: 24 * time.Hour}, RequireBinding: true,
		}},
		{text: ", approval: {quorums: [{group: security}]}", err: "count"},
		{text: ", approval: {quorums: [{count: 0}]}", err: "must be a number of at least 1"},
		{text: ", approval: {quorum: 2}", err: "unknown field"},
		{text: ", approval: {expires: -1h}", err: "must be more than 0s"},
	} {
		docs, err := kubefleet.Read(strings.NewReader(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata: {name: s}
spec: {stages: [{name: a, labelSelector: {}, afterStageTasks: [{type: Approval`+c.text+`}]}]}
`), "s.yaml")
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: the error is %v, want one with %q", c.text, err, c.err)
			}
		case err != nil:
			t.Errorf("%s: %v", c.text, err)
		default:
			if diff := cmp.Diff(c.want, docs.Strategies[0].Stages[0].After[0].Approval); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.text, diff)
			}
		}
	}
}
