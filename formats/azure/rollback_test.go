package azure_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/formats/azure"
	"github.com/slipway-dev/slipway/stages"
)

// rolledBack is a file with one stage and more beside its stages, on line 2.
func rolledBack(more string) string {
	return "{\"stages\": [{\"name\": \"s\", \"groups\": [{\"name\": \"g\"}]}]" + more + "}"
}

// The property slipwayRollback is read as a strategy's Rollback, and written as the
// same.
func TestSlipwayRollback(t *testing.T) {
	for more, want := range map[string]*stages.RollbackPolicy{
		"":                            nil,
		", \"slipwayRollback\": null": nil,
		", \"slipwayRollback\": {}":   {},
		", \"slipwayRollback\": {\"causes\": [\"BudgetExceeded\"], \"newClusters\": \"Leave\", \"approval\": {\"quorums\": [{\"group\": \"sre\", \"count\": 2}], \"expires\": \"24h\"}}": {
			Causes: []stages.RollbackCause{stages.BudgetExceeded}, New: stages.LeaveNew,
			Approval: &approval.Policy{Quorums: []approval.Quorum{{Group: "sre", Count: 2}}, Expires: metav1.Duration{Duration: 24 * time.Hour}},
		},
	} {
		s, err := azure.Read(strings.NewReader(rolledBack(more)), "f")
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, s.Rollback); d != "" {
			t.Errorf("%s (-want +got):\n%s", more, d)
		}
		text, err := formOf(azure.Form(s))
		if err != nil || strings.Contains(string(text), "slipwayRollback") != (want != nil) {
			t.Fatalf("%s %v", text, err)
		}
		again, err := azure.Read(strings.NewReader(string(text)), "f")
		if d := cmp.Diff(s, again); d != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, d)
		}
	}
	const at = "f:2: slipwayRollback"
	problems(t, rolledBack(",\n\"slipwayRollback\": {\"causes\": [\"Command\", \"Command\"]}"), at+".causes[1]: Duplicate")
	problems(t, rolledBack(",\n\"slipwayRollback\": {\"causes\": [\"Always\"], \"approval\": {\"quorums\": [{\"count\": 0}]}}"),
		at+".causes[0]: must be BudgetExceeded or GateRejected or Command", at+".approval.quorums[0].count: must be a number of at least 1")
	problems(t, rolledBack(",\n\"slipwayRollback\": true"), at+": must be an object, not a boolean")
	problems(t, rolledBack(",\n\"rollback\": {}"), "f:2: rollback: unknown field; known are slipwayRollback, stages")
}

// A strategy that upgrades clusters must not have a rollback, and the error explains why.
func TestCheckUpgrade(t *testing.T) {
	s := azure.OneByOne()
	if err := azure.CheckUpgrade(&s); err != nil {
		t.Error(err)
	}
	s.Rollback = &stages.RollbackPolicy{}
	if err := azure.CheckUpgrade(&s); err == nil || !strings.Contains(err.Error(), "slipwayRollback: a cluster that was upgraded does not go back to a lower version") {
		t.Error(err)
	}
}
