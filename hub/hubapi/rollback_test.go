package hubapi

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/status"
)

// A second request to roll back a run says which run rolls it back, or why none does, in the words
// of a store.
func TestASecondRollbackOfAHubsRun(t *testing.T) {
	asked := func(state, message string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "second", "generation": int64(2)}, "status": map[string]any{"rollbackRunName": "second-rollback"},
		}}
		if state != "" {
			_ = unstructured.SetNestedSlice(u.Object, []any{map[string]any{
				"type": api.ConditionRollback, "status": state, "observedGeneration": int64(2), "message": message,
			}}, "status", "conditions")
		}
		return u
	}
	for want, u := range map[string]*unstructured.Unstructured{
		"run second cannot be rolled back: run second-rollback rolls it back already":       asked("True", ""),
		"run second cannot be rolled back: it is too late":                                  asked("False", status.NotRolledBack+"it is too late"),
		"run second cannot be rolled back: its strategy has no rollback":                    asked("False", status.NotRolledBack+"run x cannot be rolled back: its strategy has no rollback"),
		"run second cannot be rolled back: its rollback is requested already, and the hub ": asked("", ""),
	} {
		err := rolledBack(u, "second", func(_, name string) string { return name })
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
