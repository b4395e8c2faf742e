package rollback_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/formats/internal/rollback"
	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/stages"
)

func read(t *testing.T, text string) (*stages.RollbackPolicy, []string) {
	t.Helper()
	docs, err := yamldoc.Read(strings.NewReader(text), "f")
	if err != nil {
		t.Fatal(err)
	}
	for d := range docs {
		part := yamldoc.New("f")
		part.Open(d.Root().Node, "at")
		b := rollback.Read(part.Root())
		return b, strings.FieldsFunc(part.Problems().Error(), func(r rune) bool { return r == '\n' })
	}
	return nil, []string{"nothing stands there"}
}

// Writing and reading a rollback returns the same value.
func TestReadAndForm(t *testing.T) {
	for text, want := range map[string]*stages.RollbackPolicy{
		"{}": {},
		"{causes: [GateRejected, Command], newClusters: Leave, approval: {}}": {
			Causes: []stages.RollbackCause{stages.GateRejected, stages.OnCommand}, New: stages.LeaveNew, Approval: &approval.Policy{},
		},
		"{causes: null, approval: {quorums: [{count: 2}, {group: sre}], forbidStarter: true, expires: 24h, requireBinding: true}}": {
			Approval: &approval.Policy{
				Quorums: []approval.Quorum{{Count: 2}, {Group: "sre", Count: 1}}, ForbidStarter: true, Expires: metav1.Duration{Duration: 24 * time.Hour}, RequireBinding: true,
			},
		},
	} {
		got, problems := read(t, text)
		if d := cmp.Diff(want, got); d != "" || len(problems) > 0 {
			t.Errorf("%s: %v (-want +got):\n%s", text, problems, d)
		}
		written, err := json.Marshal(rollback.FormOf(got))
		if err != nil {
			t.Fatal(err)
		}
		if again, problems := read(t, string(written)); cmp.Diff(want, again) != "" || len(problems) > 0 {
			t.Errorf("%s is written as %s: %v", text, written, problems)
		}
	}
	if rollback.FormOf(nil) != nil {
		t.Error("nothing has a form")
	}
}

// All problems are reported, with lines and paths.
func TestProblems(t *testing.T) {
	_, problems := read(t, strings.Join([]string{
		"causes: [Failure, 3]",
		"newClusters: Keep",
		"newClusters2: x",
		"approval:",
		"  quorums: [{count: 0}, {count: 1.5, people: 2}, 7]",
		"  forbidStarter: 1",
		"  expires: soon",
		"  quorums: []",
	}, "\n"))
	want := []string{
		`f:1: at.causes[0]: must be BudgetExceeded or GateRejected or Command, not "Failure"`,
		`f:1: at.causes[1]: must be a string, not the number 3; write "3"`,
		`f:2: at.newClusters: must be Remove or Leave, not "Keep"`,
		`f:3: at.newClusters2: unknown field; known are approval, causes, newClusters`,
		`f:5: at.approval.quorums[0].count: must be a number of at least 1, not 0`,
		`f:5: at.approval.quorums[1].count: must be a whole number, not the number 1.5`,
		`f:5: at.approval.quorums[1].people: unknown field; known are count, group`,
		`f:5: at.approval.quorums[2]: must be an object, not the number 7`,
		`f:6: at.approval.forbidStarter: must be true or false, not the number 1`,
		`f:7: at.approval.expires: must be a duration such as 30s, 5m or 1h30m, not "soon"`,
		`f:8: at.approval.quorums: is there already, on line 5; leave one of the two`,
	}
	if d := cmp.Diff(want, problems); d != "" {
		t.Errorf("problems (-want +got):\n%s", d)
	}
	for text, want := range map[string]string{
		"[]": "must be an object, not a list", "causes: []": "must name a cause", "causes: {}": "must be a list, not an object",
	} {
		if _, problems := read(t, text); len(problems) != 1 || !strings.Contains(problems[0], want) {
			t.Errorf("%s: %v", text, problems)
		}
	}
}
