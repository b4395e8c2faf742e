package oam

import (
	"strings"

	"github.com/slipway-dev/slipway/formats/internal/rollback"
	"github.com/slipway-dev/slipway/stages"
)

// rollbackPolicy reads the annotation for a rollback, nil if it is absent. It reports problems in
// it at its line.
func rollbackPolicy(v value) *stages.RollbackPolicy {
	annotations, _ := v.Get("annotations")
	at, ok := annotations.Get(RollbackAnnotation)
	if !ok || !at.IsString() {
		return nil // a value that is no string was reported
	}
	inner, ok := at.Inner()
	if !ok || anchored(inner.Node) != nil {
		at.Fail(`must be an object in YAML, for example "{}" or "{causes: [BudgetExceeded]}"`)
		return nil
	}
	b := rollback.Read(inner)
	inner.Check(rollback.Check(b), func(path string) string { return strings.TrimPrefix(path, "rollback") })
	return b
}
