package status

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/drift"
)

// reasonsOfTheAPI returns the constants of package api for types of conditions and for reasons.
func reasonsOfTheAPI(t *testing.T) (conditions, reasons []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../api/api.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		text, _ := strconv.Unquote(literal.Value)
		switch name := spec.Names[0].Name; {
		case strings.HasPrefix(name, "Reason"):
			reasons = append(reasons, text)
		case strings.HasPrefix(name, "Condition"):
			conditions = append(conditions, text)
		}
		return true
	})
	return conditions, reasons
}

// The table in docs/conditions.md has every reason of every condition of the hub once, and an
// explanation for each reason that KubeFleet does not have. The documentation of package hub lists
// the same reasons as Slipway's own.
func TestEveryReasonIsInTheTable(t *testing.T) {
	text, err := os.ReadFile("../../../docs/conditions.md")
	if err != nil {
		t.Fatal(err)
	}
	conditions, want := reasonsOfTheAPI(t)
	for _, r := range []drift.Reason{drift.FoundDrifts, drift.FailedToTakeOver, drift.NotTakenOver} {
		want = append(want, string(r))
	}
	row := regexp.MustCompile("(?m)^\\| ([A-Za-z, ]+) \\| `([A-Za-z]+)` \\| ([^|]*) \\| ([^|]*)\\|$")
	var got, own []string
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		got = append(got, m[2])
		for kind := range strings.SplitSeq(m[1], ", ") {
			if !slices.Contains(conditions, kind) {
				t.Errorf("%s: there is no condition %s", m[2], kind)
			}
		}
		switch why := strings.TrimSpace(m[4]); {
		case m[3] == "-" && why == "":
			t.Errorf("%s: nothing says why KubeFleet does not have it", m[2])
		case m[3] == "-":
			own = append(own, m[2])
		case m[3] != "=":
			t.Errorf("%s: KubeFleet's is %q, want = or -", m[2], m[3])
		}
	}
	for _, reason := range want {
		if n := len(slices.DeleteFunc(slices.Clone(got), func(r string) bool { return r != reason })); n != 1 {
			t.Errorf("%s is in the table %d times", reason, n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("the table has %d reasons, there are %d", len(got), len(want))
	}
	slices.Sort(own)
	if documented := reasonsOfDoc(t); !slices.Equal(own, documented) {
		t.Errorf("the table calls these Slipway's own:\n%q\nand package hub these:\n%q", own, documented)
	}
}

// reasonsOfDoc returns the reasons that the documentation of package hub lists as Slipway's own,
// ascending.
func reasonsOfDoc(t *testing.T) (out []string) {
	t.Helper()
	text, err := os.ReadFile("../../doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "// # Reasons of Slipway's own\n")
	if !found {
		t.Fatal("package hub does not say which reasons are Slipway's own")
	}
	section, _, _ = strings.Cut(section, "// # ")
	reason := regexp.MustCompile(`\b(?:UpdateRun|StageTask|AfterStageTask|ClusterUpdating|ApprovalRequest|MemberCluster)[A-Z][A-Za-z]+\b|\bRejected\b|\bWrongScope\b`)
	out = reason.FindAllString(section, -1)
	slices.Sort(out)
	return out
}
