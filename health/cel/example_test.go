package celhealth_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/health"
	celhealth "github.com/slipway-dev/slipway/health/cel"
)

// Rules from a file of a host, and the health of an object by them.
func Example() {
	var rules []health.Rule
	err := yaml.UnmarshalStrict([]byte(`
- group: argoproj.io
  kind: Rollout
  ready: self.status.phase == 'Healthy'
  failed: self.status.phase == 'Degraded'
  message: self.status.?message.orValue('phase ' + self.status.phase)
`), &rules)
	if err != nil {
		log.Fatal(err)
	}
	prober, err := celhealth.New(rules, celhealth.Options{})
	if err != nil {
		log.Fatal(err)
	}
	config := fleet.Config{Prober: prober} // and the rest

	rollout := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": map[string]any{"name": "shop"},
		"status": map[string]any{"phase": "Paused", "message": "CanaryPauseStep"},
	}}
	h, err := config.Prober.Probe(context.Background(), rollout)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Healthy, h.Failed, h.Message)
	// Output: false false CanaryPauseStep
}

// All problems of rules are reported at once, with the line and the column.
func ExampleNew_problems() {
	_, err := celhealth.New([]health.Rule{
		{Kind: "Pod", Ready: "self.status.ok"},
		{Kind: "Node", Ready: "true &&\n  slef.ok", Message: "3"},
	}, celhealth.Options{})
	fmt.Println(strings.ReplaceAll(err.Error(), ", rules", "\nrules"))
	// Output:
	// celhealth: [rules[1].ready: Invalid value: "true &&\n  slef.ok": 2:3: undeclared reference to 'slef' (did you mean 'self'?)
	// rules[1].message: Invalid value: "3": 1:1: its type is int, and must be string]
}
