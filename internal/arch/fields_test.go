package arch

import (
	"regexp"
	"strings"
	"testing"
)

// fieldRow is a row of a table of fields: names, at least two spaces, and a type that the
// language or package time has.
var fieldRow = regexp.MustCompile(`^\t[A-Z]\w*(, [A-Z]\w*)* {2,}(\*|\[\]|map\[\w+\])*((string|bool|byte|error|any|u?int(8|16|32|64)?|float(32|64)|time\.(Time|Duration))( |$)|func\()`)

// fields reports comments that list the fields of a type. Fields must be documented at the type,
// where go doc shows them.
func (c *checker) fields() {
	if c.test {
		return
	}
	for _, group := range c.ast.Comments {
		for _, line := range group.List {
			if text, ok := strings.CutPrefix(line.Text, "//"); ok && fieldRow.MatchString(text) {
				c.report(line, "lists a field in a comment; document it at the field of the type")
			}
		}
	}
}

func TestNoCommentListsFields(t *testing.T) {
	const table = "lists a field"
	for _, p := range []planted{
		{"fleet/x.go", "// Package x\n//\n//\tName, Other  string  the names\npackage x\n", table},
		{"fleet/x.go", "// Package x\n//\n//\tContent  func(context.Context) error\npackage x\n", table},
		{"stages/x.go", "// Package x\n//\n//\tGone  []string\npackage x\n", table},
		{"fleet/internal/guard/x.go", "// Package x\n//\n//\tSince  time.Time  since when\npackage x\n", table},
		{"fleet/x_test.go", "// Package x\n//\n//\tGone  []string\npackage x\n", ""},
		{"fleet/x.go", "// Package x\n//\n//\tGET  /v1/runs\npackage x\n", ""},
		{"formats/kubefleet/x.go", "// Package x\n//\n//\tMemberCluster  placement.Cluster\npackage x\n", ""},
		{"fleet/x.go", "// Package x has Name string\npackage x\n", ""},
	} {
		p.check(t)
	}
}
