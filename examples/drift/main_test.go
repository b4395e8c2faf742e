package main

import (
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/drift"
)

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: app, image: "example.com/web:1", resources: {limits: {cpu: 1000m}}}]
`

// Defaults, other spellings of a quantity and ignored fields are no difference; another image is
// one.
func TestOnlyChangesInMeaningAreDifferences(t *testing.T) {
	same := strings.NewReplacer("replicas: 2", "replicas: 5\n  revisionHistoryLimit: 10", "1000m", `"1"`).Replace(deployment)
	if r, err := compare(strings.NewReader(deployment), strings.NewReader(same)); err != nil || r.Drifted() {
		t.Errorf("%v, %v", r.Differences, err)
	}
	other := strings.ReplaceAll(same, "web:1", "web:2")
	r, err := compare(strings.NewReader(deployment), strings.NewReader(other))
	if err != nil || len(r.Differences) != 1 || r.Differences[0].Class != drift.Changed || r.Differences[0].KeyPath != `.spec.template.spec.containers[name="app"].image` {
		t.Errorf("%+v, %v", r.Differences, err)
	}
	if _, err := compare(strings.NewReader("a: ["), strings.NewReader(other)); err == nil {
		t.Error("what is no YAML is no error")
	}
}
