package check_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/stages/check"
)

// The value of a word is safe at every place of a query, or refused.
func TestValuesOfWordsAreEscapedByPosition(t *testing.T) {
	const refused = "refused"
	for _, c := range []struct{ query, value, want string }{
		// PromQL, in a string.
		{`x{a="{{cluster}}"}`, "eu.west-1", `x{a="eu.west-1"}`},
		{`x{a="{{cluster}}"}`, "a) or (vector(1)", `x{a="a) or (vector(1)"}`},
		{`x{a='{{cluster}}'}`, ".*", `x{a='.*'}`},
		{"x{a=`{{cluster}}`}", "a b", "x{a=`a b`}"},
		{`x{a="\"{{cluster}}"}`, "a b", `x{a="\"a b"}`},
		{`x{a!="{{cluster}}"}`, "a|b", `x{a!="a|b"}`},
		{`x{a="{{cluster}}"}`, `a"b`, refused},
		{`x{a="{{cluster}}"}`, `a\b`, refused},
		{`x{a="{{cluster}}"}`, "a}b", refused},
		{`x{a="{{cluster}}"}`, "a\nb", refused},
		// PromQL, in a pattern.
		{`x{a=~"{{cluster}}"}`, "eu.west-1", `x{a=~"eu[.]west-1"}`},
		{`x{a!~ '{{cluster}}'}`, "eu.west-1", `x{a!~ 'eu[.]west-1'}`},
		{`x{a=~"{{cluster}}"}`, ".*", refused},
		{`x{a=~"{{cluster}}"}`, "a|b", refused},
		{`x{a=~"{{cluster}}"}`, "(?i)a", refused},
		{`x{a=~"{{cluster}}"}`, "a$", refused},
		{`x{a=~"b",c="{{cluster}}"}`, "a|b", `x{a=~"b",c="a|b"}`},
		{`x{a="b",c=~"d{{cluster}}"}`, "a+", refused},
		// PromQL, outside of strings.
		{"x:{{cluster}}:rate", "eu1", "x:eu1:rate"},
		{"{{cluster}}", "c-1.eu", "c-1.eu"},
		{"x > {{cluster}}", "5", "x > 5"},
		{"sum({{cluster}})", "a) or (vector(1)", refused},
		{"x{a={{cluster}}}", "a,b", refused},
		{`x{a="b"} {{cluster}}`, "or 1", refused},
		{"x # {{cluster}}", "a\nor 1", refused},
		{`x # "` + "\n" + `+ {{cluster}}`, "a+b", refused},
		{"x[{{window}}] + {{snapshot}}", "", "x[5s] + 7"},
		// URLs.
		{"/a/{{cluster}}/b?c={{cluster}}", "a?x=y&z#/q", "/a/a%3Fx%3Dy%26z%23%2Fq/b?c=a%3Fx%3Dy%26z%23%2Fq"},
		{"GET https://x/{{cluster}}", "a b+ü%2e", "GET https://x/a%20b%2B%C3%BC%252e"},
		{" \n POST /{{cluster}}", "a#b", " \n POST /a%23b"},
		{"HTTPS://x/{{cluster}}", "../a", "HTTPS://x/..%2Fa"},
		{"/a?w={{window}}", "", "/a?w=5s"},
		// Pointers.
		{"/a #/data/{{cluster}}/x", "a/b~c%d", "/a #/data/a~1b~0c%25d/x"},
		{"/a #/data/{{cluster}}", "eu.west-1", "/a #/data/eu.west-1"},
		// Bodies.
		{"POST /a #/x\n{\"a\": {{cluster}}}", "5", "POST /a #/x\n{\"a\": 5}"},
		{"POST /a\n{\"a\": {{cluster}}}", "5, 6", refused},
		{"POST /a\n{\"a\": \"{{cluster}}\"}", "eu.west-1", "POST /a\n{\"a\": \"eu.west-1\"}"},
		{"POST /a\n{\"a\": \"{{cluster}}\"}", `a", "b": "c`, refused},
	} {
		subject := check.Subject{Cluster: c.value, Snapshot: 7, Window: 5 * time.Second}
		got, err := (&check.Check{Name: "c", Query: c.query}).Resolve(&subject)
		if c.want == refused {
			if err == nil || !strings.HasPrefix(err.Error(), "check c: query: the value of {{cluster}} has") || strings.Contains(err.Error(), "vector") {
				t.Errorf("%s with %q: %q, %v", c.query, c.value, got, err)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%s with %q: %q, %v; want %q", c.query, c.value, got, err, c.want)
		}
	}
}
