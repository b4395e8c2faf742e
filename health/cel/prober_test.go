package celhealth_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/health"
	celhealth "github.com/slipway-dev/slipway/health/cel"
)

// rules are of kinds of Kubernetes and of others.
const rules = `
- group: apps
  kind: Deployment
  ready: self.status.?readyReplicas.orValue(0) >= self.spec.replicas
  message: string(self.status.?readyReplicas.orValue(0)) + ' of ' + string(self.spec.replicas) + ' replicas'
- group: batch
  kind: Job
  ready: self.status.conditions.exists(c, c.type == 'Complete' && c.status == 'True')
  failed: self.status.conditions.exists(c, c.type == 'Failed' && c.status == 'True')
  message: self.status.conditions.filter(c, c.type == 'Failed').map(c, c.message).join('; ')
- group: example.io
  kind: Database
  ready: self.status.phase == 'Ready'
  failed: self.status.phase == 'Broken'
  message: self.status.reason
- group: example.io
  version: v2
  kind: Database
  ready: self.status.ok
- group: argoproj.io
  kind: Rollout
  ready: self.status.phase == 'Healthy' && self.status.?stableRS == self.status.?currentPodHash
  failed: self.status.phase == 'Degraded'
  message: self.status.?message.orValue('phase ' + self.status.phase)
- kind: ConfigMap
  ready: self.data.state == 'ready'
  anyGeneration: true
`

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	b, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = obj.UnmarshalJSON(b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func prober(t testing.TB, text string, o celhealth.Options) *celhealth.Prober {
	t.Helper()
	var rules []health.Rule
	if err := yaml.UnmarshalStrict([]byte(text), &rules); err != nil {
		t.Fatal(err)
	}
	p, err := celhealth.New(rules, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestObjectsAreProbedByTheRuleOfTheirKind(t *testing.T) {
	p := prober(t, rules, celhealth.Options{})
	for name, c := range map[string]struct {
		object string
		want   health.Status
	}{
		"deployment": {
			"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 3}, status: {readyReplicas: 3}}",
			health.Status{Healthy: true},
		},
		"deployment on its way": {
			"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 3}, status: {readyReplicas: 1}}",
			health.Status{Message: "1 of 3 replicas"},
		},
		"deployment without a status": {
			"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 3}}",
			health.Status{Message: "ready at 1:12: no such key: status"},
		},
		"job": {
			"{apiVersion: batch/v1, kind: Job, status: {conditions: [{type: Complete, status: 'True'}]}}",
			health.Status{Healthy: true},
		},
		"job that runs": {
			"{apiVersion: batch/v1, kind: Job, status: {active: 1}}",
			health.Status{Message: "ready at 1:12: no such key: conditions"},
		},
		"job that failed": {
			"{apiVersion: batch/v1, kind: Job, status: {conditions: [{type: Failed, status: 'True', message: backoff limit}]}}",
			health.Status{Failed: true, Message: "backoff limit"},
		},
		"database": {
			"{apiVersion: example.io/v1, kind: Database, status: {phase: Ready}}",
			health.Status{Healthy: true},
		},
		"database that broke": {
			"{apiVersion: example.io/v1, kind: Database, status: {phase: Broken, reason: no disk}}",
			health.Status{Failed: true, Message: "no disk"},
		},
		"database without a reason": {
			"{apiVersion: example.io/v1, kind: Database, status: {phase: Creating}}",
			health.Status{Message: "ready is false; message at 1:12: no such key: reason"},
		},
		"database of another version": {
			"{apiVersion: example.io/v2, kind: Database, status: {phase: Broken, ok: true}}",
			health.Status{Healthy: true},
		},
		"value of another type": {
			"{apiVersion: example.io/v2, kind: Database, status: {ok: 'true'}}",
			health.Status{Message: "ready is not a bool, but a string"},
		},
		"status of an older generation": {
			"{apiVersion: example.io/v1, kind: Database, metadata: {generation: 2}, status: {phase: Ready, observedGeneration: 1}}",
			health.Status{Message: "its status is of generation 1, and the object of 2"},
		},
		"failure of an older generation": {
			"{apiVersion: example.io/v1, kind: Database, metadata: {generation: 2}, status: {phase: Broken, observedGeneration: 1}}",
			health.Status{Message: "its status is of generation 1, and the object of 2"},
		},
		"any generation": {
			"{apiVersion: v1, kind: ConfigMap, metadata: {generation: 2}, data: {state: ready}, status: {observedGeneration: 1}}",
			health.Status{Healthy: true},
		},
		"deletion": {
			"{apiVersion: example.io/v1, kind: Database, metadata: {deletionTimestamp: '2026-01-01T00:00:00Z'}, status: {phase: Ready}}",
			health.Status{Message: "it is being deleted"},
		},
		"rollout": {
			"{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {generation: 7}, " +
				"status: {phase: Healthy, stableRS: a1, currentPodHash: a1, observedGeneration: '7'}}",
			health.Status{Healthy: true},
		},
		"rollout between": {
			"{apiVersion: argoproj.io/v1alpha1, kind: Rollout, status: {phase: Healthy, stableRS: a1, currentPodHash: b2}}",
			health.Status{Message: "phase Healthy"},
		},
		"rollout of an older generation": {
			"{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {generation: 7}, status: {phase: Healthy, observedGeneration: '6'}}",
			health.Status{Message: "its status is of generation 6, and the object of 7"},
		},
		"rollout that failed": {
			"{apiVersion: argoproj.io/v1alpha1, kind: Rollout, status: {phase: Degraded, message: ProgressDeadlineExceeded}}",
			health.Status{Failed: true, Message: "ProgressDeadlineExceeded"},
		},
		"kind without a rule": {
			"{apiVersion: example.io/v1, kind: Cache, status: {conditions: [{type: Stalled, status: 'True', message: no memory}]}}",
			health.Status{Failed: true, Message: "no memory"},
		},
		"kind of another group": {
			"{apiVersion: example.com/v1, kind: Database, status: {phase: Broken}}",
			health.Status{Healthy: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := p.Probe(t.Context(), object(t, c.object))
			if d := cmp.Diff(c.want, got); err != nil || d != "" {
				t.Errorf("%v\n%s", err, d)
			}
		})
	}
}

// All problems are reported at once, each with its field, line and column.
func TestRulesThatDoNotCompileAreRefused(t *testing.T) {
	loop := "self.a.all(x, self.b.all(y, self.c.all(z, x == y && y == z)))"
	rules := []health.Rule{
		{Kind: "A", Ready: "self.status.ok"},
		{Kind: "B", Ready: "slef.status.ok ||\n  foo == 1", Failed: "self.status.", Message: "3"},
		{Kind: "C", Ready: "'yes'", Failed: "self.?status.?ok"},
		{Kind: "D", Ready: loop},
		{Kind: "E", Ready: "self.status.phase.matches('(')"},
		{Ready: "true"},
		{
			Kind: "G", Ready: "self.status.text.matches(self.status.pattern)",
			Failed: "self.a.replace('a', self.b) == ''", Message: "'%s'.format([self])",
		},
		{Kind: "F", Ready: strings.Repeat("(", 300) + "true" + strings.Repeat(")", 300)},
	}
	p, err := celhealth.New(rules, celhealth.Options{})
	if p != nil || err == nil {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{
		`rules[1].ready: Invalid value: "slef.status.ok ||\n  foo == 1": 1:1: undeclared reference to 'slef'`,
		": 2:3: undeclared reference to 'foo'",
		`rules[1].failed: Invalid value: "self.status.": 1:13: Syntax error`,
		`rules[1].message: Invalid value: "3": 1:1: its type is int, and must be string`,
		`rules[2].ready: Invalid value: "'yes'": 1:1: its type is string, and must be bool`,
		"rules[2].failed: Invalid value", "its type is optional_type(dyn)",
		"rules[3].ready", "where lists have 100 entries, and the limit is 1000000", `rules[4].ready`, "1:27", "rules[5].kind: Required",
		"1:37: the pattern of matches must be a literal", "rules[6].failed",
		"undeclared reference to 'replace'", "rules[6].message", "rules[7].ready",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "rules[0]") {
		t.Errorf("a good rule is refused: %v", err)
	}
}

// bigList is a status with a list of n objects and a long text.
func bigList(n int) *unstructured.Unstructured {
	list := make([]any, n)
	for i := range list {
		list[i] = map[string]any{"n": int64(i), "name": "entry", "in": []any{"a", "b"}}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.io/v1", "kind": "Database",
		"status": map[string]any{"list": list, "text": strings.Repeat("ab", 10_000), "phase": "Ready"},
	}}
}

// The prober stops an expensive expression early, and the object is not ready.
func TestTheCostOfAnEvaluationIsBounded(t *testing.T) {
	obj := bigList(20_000)
	for name, ready := range map[string]string{
		"nested loops":          "self.status.list.all(x, self.status.list.all(y, x.n >= 0))",
		"comparison of objects": "self.status.list.all(x, self == self)",
		"comparison of lists":   "self.status.list.all(x, self.status.list == self.status.list)",
		"search in a list":      "self.status.list.all(x, x in self.status.list)",
		"list of lists":         "self.status.list.map(x, self.status.list).size() > 0 && self.status.list.all(x, [self] == [self])",
		"doubled texts":         "[1,2,3,4,5,6].all(a, self.status.list.all(x, (self.status.text + self.status.text).size() > 0))",
		"text that doubles":     "optional.of(self.status.text)" + strings.Repeat(".optMap(x, x + x)", 12) + ".hasValue()",
		"list that doubles":     "optional.of(self.status.list)" + strings.Repeat(".optMap(x, x + x)", 12) + ".hasValue()",
		"search in a text":      "[1,2,3,4,5,6].all(a, self.status.list.all(x, !self.status.text.contains('c')))",
		"parts of texts":        "self.status.list.all(x, self.status.text.split('').size() > 0)",
		"matches":               "self.status.list.all(x, !self.status.text.matches('(a|b)*c$'))",
		"optionals":             "self.status.list.all(x, self.?status == self.?status)",
	} {
		t.Run(name, func(t *testing.T) {
			p, err := celhealth.New([]health.Rule{{Group: "example.io", Kind: "Database", Ready: ready}}, celhealth.Options{Timeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			h, err := p.Probe(t.Context(), obj)
			if want := (health.Status{Message: "ready is stopped: it costs more than 1000000"}); err != nil || h != want {
				t.Errorf("got %+v, %v", h, err)
			}
			if took := time.Since(begin); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
	texts := `[{group: example.io, kind: Database, ready: "self.status.list.map(x, self.status.text).join(',') != ''"}]`
	h, err := prober(t, texts, celhealth.Options{}).Probe(t.Context(), bigList(10))
	if err != nil || !strings.HasSuffix(h.Message, ": the joined text has more than 65536 bytes") {
		t.Errorf("got %+v, %v", h, err)
	}
	search := `[{group: example.io, kind: Database, ready: "true", failed: "self.status.list.exists(x, x.n < 0)"}]`
	h, err = prober(t, search, celhealth.Options{CostLimit: 2000}).Probe(t.Context(), obj)
	if err != nil || h != (health.Status{Message: "failed is stopped: it costs more than 2000"}) {
		t.Errorf("got %+v, %v: what may have failed is not ready", h, err)
	}
}

func TestTheTimeOfAnEvaluationIsBounded(t *testing.T) {
	rule := []health.Rule{{Group: "example.io", Kind: "Database", Ready: "self.status.list.all(x, x.n >= 0)"}}
	p, err := celhealth.New(rule, celhealth.Options{Timeout: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	if h, err := p.Probe(t.Context(), bigList(1000)); err != nil || h != (health.Status{Message: "ready is stopped: it takes too long"}) {
		t.Errorf("got %+v, %v", h, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if h, err := p.Probe(ended, bigList(1000)); !errors.Is(err, context.Canceled) || h != (health.Status{}) {
		t.Errorf("got %+v, %v, after the context ended", h, err)
	}
}

// A member may put anything into a status. No value makes a probe fail or panic, or makes an
// unhealthy object healthy.
func TestAHostileStatusIsNotReady(t *testing.T) {
	p := prober(t, rules, celhealth.Options{})
	deep := any("x")
	for range 10_000 {
		deep = map[string]any{"phase": deep}
	}
	for name, status := range map[string]any{
		"null": nil, "text": "Ready", "number": 1.5, "list": []any{"Ready"}, "huge number": int64(-1 << 63), "deep": deep,
		"phase of a map": map[string]any{"phase": map[string]any{"phase": "Ready"}},
		"null condition": map[string]any{"conditions": []any{nil, "x", int64(3), map[string]any{"type": nil, "status": "True"}}},
		"conditions map": map[string]any{"conditions": map[string]any{"type": "Complete", "status": "True"}},
		"generation":     map[string]any{"observedGeneration": map[string]any{}, "phase": []any{}},
		"unknown type": map[string]any{
			"phase": struct{ a int }{1}, "conditions": make(chan int), "ok": func() {}, "readyReplicas": complex(1, 2),
		},
		"nested types": map[string]any{"phase": int32(1), "ok": uint8(1), "readyReplicas": "three"},
	} {
		for _, kind := range []string{
			"apps/v1 Deployment", "batch/v1 Job", "example.io/v1 Database", "example.io/v2 Database", "argoproj.io/v1 Rollout", "v1 ConfigMap",
		} {
			apiVersion, kind, _ := strings.Cut(kind, " ")
			obj := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": apiVersion, "kind": kind, "spec": map[string]any{"replicas": int64(1)}, "status": status,
			}}
			h, err := p.Probe(t.Context(), obj)
			if err != nil || h.Healthy || h.Failed || h.Message == "" || strings.Contains(h.Message, "internal error") {
				t.Errorf("%s of %s: %+v, %v", name, kind, h, err)
			}
		}
	}
}

func TestAMessageIsBoundedAndPrintable(t *testing.T) {
	p := prober(t, rules, celhealth.Options{})
	for name, c := range map[string]struct{ reason, want string }{
		"long":           {strings.Repeat("x", 10_000), strings.Repeat("x", 256)},
		"cut in a rune":  {strings.Repeat("x", 255) + "ä", strings.Repeat("x", 255)},
		"terminal codes": {"a\x1b[2Jb\nc\u202ed", "a [2Jb c d"},
		"not UTF-8":      {"a" + strings.Repeat("\xff", 1000) + "b", "a b"},
	} {
		obj := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.io/v1", "kind": "Database", "status": map[string]any{"phase": "Broken", "reason": c.reason},
		}}
		h, err := p.Probe(t.Context(), obj)
		if err != nil || !h.Failed || h.Message != c.want || !utf8.ValidString(h.Message) {
			t.Errorf("%s: got %+v, %v", name, h, err)
		}
	}
}

func TestTheRulesOfAPlacementGoFirst(t *testing.T) {
	otherwise := health.ProberFunc(func(context.Context, *unstructured.Unstructured) (health.Status, error) {
		return health.Status{Message: "asked otherwise"}, nil
	})
	p := prober(t, rules, celhealth.Options{Otherwise: otherwise})
	own := []health.Rule{{Group: "example.io", Kind: "Database", Ready: "self.status.phase == 'Broken'"}}
	for name, c := range map[string]struct {
		kind, phase string
		want        health.Status
	}{
		"rule of the placement": {"Database", "Broken", health.Status{Healthy: true}},
		"no rule":               {"Cache", "Ready", health.Status{Message: "asked otherwise"}},
	} {
		obj := object(t, "{apiVersion: example.io/v1, kind: "+c.kind+", status: {phase: "+c.phase+"}}")
		for range 2 { // compiled, and kept
			if got, err := p.ProbeBy(t.Context(), own, obj); err != nil || got != c.want {
				t.Errorf("%s: got %+v, %v", name, got, err)
			}
		}
	}
	rollout := object(t, "{apiVersion: argoproj.io/v1, kind: Rollout, status: {phase: Healthy}}")
	if got, err := p.ProbeBy(t.Context(), own, rollout); err != nil || !got.Healthy {
		t.Errorf("the rule of the host: got %+v, %v", got, err)
	}

	bad := []health.Rule{{Kind: "A", Ready: "true"}, {Group: "example.io", Kind: "Database", Ready: "x"}}
	errs := p.ValidateRules(bad, field.NewPath("applyStrategy", "health"))
	if len(errs) != 1 || errs[0].Field != "applyStrategy.health[1].ready" {
		t.Errorf("%v", errs)
	}
	for name, rules := range map[string][]health.Rule{"does not compile": bad, "has no ready": {{Group: "example.io", Kind: "Database"}}} {
		obj := object(t, "{apiVersion: example.io/v1, kind: Database}")
		if h, err := p.ProbeBy(t.Context(), rules, obj); !errors.Is(err, backend.ErrPermanent) || h != (health.Status{}) {
			t.Errorf("a rule that %s: got %+v, %v", name, h, err)
		}
	}
}

func TestAProberIsUsedConcurrently(t *testing.T) {
	p := prober(t, rules, celhealth.Options{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			own := []health.Rule{{Group: "example.io", Kind: "Cache", Ready: fmt.Sprintf("self.status.n %% 8 == %d", i%4)}}
			for n := range 200 {
				obj := &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "example.io/v1", "kind": "Cache", "status": map[string]any{"n": int64(n), "phase": "Ready"},
				}}
				if h, err := p.ProbeBy(t.Context(), own, obj); err != nil || h.Healthy != (n%8 == i%4) {
					t.Errorf("%d: %+v, %v", n, h, err)
				}
				obj.Object["kind"] = "Database"
				if h, err := p.Probe(t.Context(), obj); err != nil || !h.Healthy {
					t.Errorf("%d: %+v, %v", n, h, err)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkProbe(b *testing.B) {
	conditions := []any{
		map[string]any{"type": "Available", "status": "True", "message": "yes"},
		map[string]any{"type": "Ready", "status": "True", "message": "yes"},
	}
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.io/v1", "kind": "Database", "metadata": map[string]any{"name": "x", "generation": int64(1)},
		"status": map[string]any{"conditions": conditions, "observedGeneration": int64(1)},
	}}
	const ready = "self.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')"
	rule := []health.Rule{{Group: "example.io", Kind: "Database", Ready: ready}}
	p, err := celhealth.New(rule, celhealth.Options{})
	if err != nil {
		b.Fatal(err)
	}
	none, err := celhealth.New(nil, celhealth.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for name, probe := range map[string]func() (health.Status, error){
		"rule":              func() (health.Status, error) { return p.Probe(b.Context(), obj) },
		"rule of placement": func() (health.Status, error) { return none.ProbeBy(b.Context(), rule, obj) },
		"kstatus":           func() (health.Status, error) { return none.Probe(b.Context(), obj) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if h, err := probe(); err != nil || !h.Healthy {
					b.Fatalf("%+v, %v", h, err)
				}
			}
		})
	}
}

// parentsOf are the conditions of the only parent of a route.
type parentsOf []any

// A rule does not see conditions that were written for an older generation, and is not asked if
// nothing else is left.
func TestARuleSeesNoConditionOfAnOlderGeneration(t *testing.T) {
	condition := func(kind string, generation any) map[string]any {
		return map[string]any{"type": kind, "status": "True", "observedGeneration": generation}
	}
	const synced = "self.status.conditions.exists(c, c.type == 'Synced' && c.status == 'True')"
	const attached = "self.status.parents.exists(p, p.conditions.exists(c, c.type == 'Accepted' && c.status == 'True'))"
	const notBroken = "self.status.conditions.all(c, c.type != 'Broken')"
	for name, c := range map[string]struct {
		ready      string
		conditions any
		any, want  bool
	}{
		"of now":              {synced, []any{condition("Synced", int64(2))}, false, true},
		"old":                 {synced, []any{condition("Synced", int64(1))}, false, false},
		"old, any will do":    {synced, []any{condition("Synced", int64(1))}, true, true},
		"old beside a new":    {synced, []any{condition("Synced", "1"), condition("Ready", "2")}, false, false},
		"a negation":          {notBroken, []any{condition("Synced", int64(1))}, false, false},
		"an old Ready":        {notBroken, []any{condition("Ready", int64(1)), condition("Other", int64(2))}, false, false},
		"an old accusation":   {notBroken, []any{condition("Broken", int64(1)), condition("Ready", int64(2))}, false, true},
		"a map, of now":       {"self.status.conditions.Synced.status == 'True'", map[string]any{"Synced": condition("Synced", int64(2))}, false, true},
		"a map, old":          {"self.status.conditions.Synced.status == 'True'", map[string]any{"Synced": condition("Synced", int64(1))}, false, false},
		"of a parent, of now": {attached, parentsOf{condition("Accepted", int64(2))}, false, true},
		"of a parent, old":    {attached, parentsOf{condition("Accepted", int64(1))}, false, false},
		"the object's shape":  {"self.status.conditions == 7", int64(7), false, true},
	} {
		p, err := celhealth.New([]health.Rule{{Group: "example.io", Kind: "Thing", Ready: c.ready, AnyGeneration: c.any}}, celhealth.Options{})
		if err != nil {
			t.Fatal(err)
		}
		obj := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.io/v1", "kind": "Thing", "metadata": map[string]any{"generation": int64(2)},
			"status": map[string]any{"conditions": c.conditions},
		}}
		if parents, of := c.conditions.(parentsOf); of {
			obj.Object["status"] = map[string]any{"parents": []any{map[string]any{"controllerName": "c", "conditions": []any(parents)}}}
		}
		if h, err := p.Probe(t.Context(), obj); err != nil || h.Healthy != c.want || h.Failed {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
}
