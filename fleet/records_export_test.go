package fleet

import (
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
)

// RecordKeys returns the keys that a placement, a run, a command and a stream of
// the same name have.
func RecordKeys(name, id string) map[string]string {
	return map[string]string{
		"placement": record.PlacementKey(name), "run": record.RunKey(name), "command": record.CommandKey(name, id),
		"journal": record.JournalPrefix(name) + id, "intent": record.IntentPrefix(name) + id, "bindings": record.BindingsPrefix(name) + id, "content": record.ContentPrefix(name) + id,
		"inflight": (&record.InFlightPages{UID: name}).Key(id), "plan": state.PlanKey(name), "plan page": record.PageKey(state.PlanKey(name), len(id)),
	}
}
