package celhealth

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/health"
)

func bounded(t *testing.T) *Prober {
	t.Helper()
	p, err := New(nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Expressions that nest deeply are refused before the checker sees them, and the deepest that is
// taken is checked quickly.
func TestAnExpressionIsNestedOnlySoDeep(t *testing.T) {
	p := bounded(t)
	for _, shape := range [][2]string{{"[", "]"}, {"(", ")"}, {"{'a': ", "}"}, {"[[", "]]"}, {"[{'a': ", "}]"}, {"true ? ", " : 1"}, {"self[", "]"}} {
		for _, depth := range []int{5, 10, 28, 100, 240, 1000} {
			inner := "1"
			text := "size(string(" + strings.Repeat(shape[0], depth) + inner + strings.Repeat(shape[1], depth) + ")) == 1"
			if len(text) > health.MaxExpression {
				continue
			}
			begin := time.Now()
			errs := p.ValidateRules([]health.Rule{{Kind: "K", Ready: text}}, field.NewPath("health"))
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("%d of %s took %s", depth, shape[0], took)
			}
			if depth >= 100 && len(errs) == 0 {
				t.Errorf("%d of %s: it compiles", depth, shape[0])
			}
		}
	}
}

// The rules of a placement are compiled for a time that is bounded as a whole.
func TestTheTimeOfAllRulesIsBounded(t *testing.T) {
	p := bounded(t)
	rules := []health.Rule{{Kind: "A", Ready: "true"}, {Kind: "B", Ready: "true"}, {Kind: "C", Ready: "tru"}}
	errs := p.validateWithin(0, rules, field.NewPath("health"))
	if len(errs) != 1 || errs[0].Type != field.ErrorTypeForbidden || errs[0].Field != "health[0]" && errs[0].Field != "health[1]" {
		t.Errorf("%v", errs)
	}
	if errs := p.ValidateRules(rules, field.NewPath("health")); len(errs) != 1 || errs[0].Field != "health[2].ready" {
		t.Errorf("%v", errs)
	}
}

// An expression with many problems is refused with few words.
func TestProblemsAreClipped(t *testing.T) {
	p := bounded(t)
	for _, text := range []string{strings.Repeat("#", health.MaxExpression), "a" + strings.Repeat(" +b", 100)} {
		errs := p.ValidateRules([]health.Rule{{Kind: "K", Ready: text, Failed: text, Message: text}}, field.NewPath("health"))
		if size := len(errs.ToAggregate().Error()); len(errs) == 0 || size > 16<<10 {
			t.Errorf("%.10q: %d problems of %d bytes", text, len(errs), size)
		}
	}
}

// A long text of a member is not evaluated, and neither is a long result of an expression.
func TestTextsAreBounded(t *testing.T) {
	p := bounded(t)
	for name, c := range map[string]struct {
		ready   string
		size    int
		message string
	}{
		"matches":          {"self.status.x.matches('(a|b)*c(a|b)*d$')", 10 << 20, "it has a text of more than 262144 bytes"},
		"split":            {"size(self.status.x.split('a')) > 1", 10 << 20, "it has a text of more than 262144 bytes"},
		"another text":     {"self.status.y == 1", 10 << 20, "it has a text of more than 262144 bytes"},
		"a text in a list": {"size(self.status.list) == 7", 10 << 20, "it has a text of more than 262144 bytes"},
		"concatenated":     {"(self.status.x + self.status.x).matches('(a|b)*c$')", textMost, "ready is stopped: it costs more than"},
		"doubled":          {"[self.status.x].map(a, a + a).map(a, a + a).exists(a, a.matches('(a|b)*c$'))", textMost * 2 / 3, "ready is stopped: it costs more than"},
		"the longest":      {"self.status.x.matches('(a|b)*c$')", textMost, ""},
	} {
		long := strings.Repeat("a", c.size)
		obj := &unstructured.Unstructured{Object: map[string]any{
			"kind": "K", "status": map[string]any{"x": long, "list": []any{map[string]any{"y": long}}},
		}}
		begin := time.Now()
		h, err := p.ProbeBy(t.Context(), []health.Rule{{Kind: "K", Ready: c.ready}}, obj)
		if took := time.Since(begin); err != nil || h.Healthy || !strings.HasPrefix(h.Message, c.message) || took > 10*time.Second {
			t.Errorf("%s: %+v, %v after %s", name, h, err, took)
		}
	}
}
