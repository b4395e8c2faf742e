package health_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/health"
)

func TestTheFormOfRulesIsChecked(t *testing.T) {
	long := strings.Repeat("x", health.MaxExpression+1)
	rules := []health.Rule{
		{Group: "example.io", Kind: "Database", Ready: "true"},
		{},
		{Group: "example.io", Kind: "Database", Ready: "true", Failed: long, Message: long},
		{Group: "example.io", Version: "v1", Kind: "Database", Ready: "true"},
	}
	var got []string
	for _, e := range health.Validate(rules, field.NewPath("rules")) {
		got = append(got, string(e.Type)+" "+e.Field)
	}
	want := []string{
		"FieldValueRequired rules[1].kind", "FieldValueRequired rules[1].ready",
		"FieldValueTooLong rules[2].failed", "FieldValueTooLong rules[2].message", "FieldValueDuplicate rules[2]",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	errs := health.Validate(make([]health.Rule, health.MaxRules+1), field.NewPath("rules"))
	if len(errs) != 1 || errs[0].Type != field.ErrorTypeTooMany {
		t.Errorf("%v", errs)
	}
}

func TestTheRuleOfAVersionGoesFirst(t *testing.T) {
	rules := []health.Rule{
		{Group: "g", Kind: "K", Ready: "every"}, {Group: "g", Version: "v2", Kind: "K", Ready: "v2"}, {Kind: "K", Ready: "core"},
	}
	for _, c := range []struct{ group, version, kind, want string }{
		{"g", "v1", "K", "every"},
		{"g", "v2", "K", "v2"},
		{"", "v1", "K", "core"},
		{"g", "v1", "L", ""},
		{"h", "v1", "K", ""},
	} {
		got := ""
		if i := health.Find(rules, c.group, c.version, c.kind); i >= 0 {
			got = rules[i].Ready
		}
		if got != c.want {
			t.Errorf("%v: got rule %q", c, got)
		}
	}
}

func TestARuleIsADocument(t *testing.T) {
	var got []health.Rule
	err := yaml.UnmarshalStrict([]byte(`
- group: example.io
  kind: Database
  ready: self.status.phase == 'Ready'
  failed: self.status.phase == 'Broken'
  message: self.status.reason
  anyGeneration: true
`), &got)
	want := []health.Rule{{
		Group: "example.io", Kind: "Database", Ready: "self.status.phase == 'Ready'",
		Failed: "self.status.phase == 'Broken'", Message: "self.status.reason", AnyGeneration: true,
	}}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v\n%s", err, d)
	}
}

func TestKstatus(t *testing.T) {
	conditions := func(kind, status string) map[string]any {
		return map[string]any{"conditions": []any{map[string]any{"type": kind, "status": status, "message": "because"}}}
	}
	for name, c := range map[string]struct {
		status        any
		ready, failed bool
		message       string
	}{
		"without a status": {ready: true},
		"stalled":          {status: conditions("Stalled", "True"), failed: true, message: "because"},
		"reconciling":      {status: conditions("Reconciling", "True"), message: "because"},
		"hostile":          {status: "none", ready: true, message: "judged by the rest, because status is text and not an object"},
	} {
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.io/v1", "kind": "Database"}}
		if c.status != nil {
			obj.Object["status"] = c.status
		}
		ready, failed, message := health.Kstatus(obj)
		if ready != c.ready || failed != c.failed || message != c.message {
			t.Errorf("%s: got %v, %v, %q", name, ready, failed, message)
		}
	}
}

func TestKindsThatKstatusJudgesOtherwise(t *testing.T) {
	for name, c := range map[string]struct {
		object        string
		ready, failed bool
		message       string
	}{
		"a service":              {"{apiVersion: v1, kind: Service, spec: {clusterIP: 10.0.0.1}}", true, false, ""},
		"a waiting balancer":     {"{apiVersion: v1, kind: Service, spec: {type: LoadBalancer, clusterIP: 10.0.0.1}, status: {loadBalancer: {}}}", false, false, "its load balancer has no address yet"},
		"a balancer without one": {"{apiVersion: v1, kind: Service, spec: {type: LoadBalancer, clusterIP: 10.0.0.1}, status: {loadBalancer: {ingress: [{ip: ''}, 7]}}}", false, false, "its load balancer has no address yet"},
		"a balancer with an IP":  {"{apiVersion: v1, kind: Service, spec: {type: LoadBalancer, clusterIP: 10.0.0.1}, status: {loadBalancer: {ingress: [{ip: 1.2.3.4}]}}}", true, false, ""},
		"a balancer with a name": {"{apiVersion: v1, kind: Service, spec: {type: LoadBalancer, clusterIP: 10.0.0.1}, status: {loadBalancer: {ingress: [{hostname: lb}]}}}", true, false, ""},
		"another service":        {"{apiVersion: example.io/v1, kind: Service, spec: {type: LoadBalancer}}", true, false, ""},
		"a new job":              {"{apiVersion: batch/v1, kind: Job, spec: {}}", false, false, "Job not started"},
		"a suspended job":        {"{apiVersion: batch/v1, kind: Job, spec: {suspend: true}, status: {conditions: [{type: Suspended, status: 'True'}]}}", true, false, ""},
		"a job that failed":      {"{apiVersion: batch/v1, kind: Job, spec: {suspend: true}, status: {conditions: [{type: Failed, status: 'True'}]}}", false, true, "Job Failed. failed: 0/1"},
	} {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(c.object), &obj.Object); err != nil {
			t.Fatal(err)
		}
		if ready, failed, message := health.Kstatus(obj); ready != c.ready || failed != c.failed || message != c.message {
			t.Errorf("%s: got %v, %v, %q", name, ready, failed, message)
		}
	}
}
