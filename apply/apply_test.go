package apply_test

import (
	"encoding/json"
	"testing"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/drift"
)

// A strategy that was stored and read is equal to itself, and to no other.
func TestStrategyEqual(t *testing.T) {
	all := []apply.Strategy{
		{},
		{Type: apply.ReportDiff},
		{WhenToApply: apply.IfNotDrifted},
		{WhenToTakeOver: apply.TakeOverAlways},
		{Ignore: []drift.IgnoreRule{{Pointers: []string{"/data"}}}, Secrets: []string{"/spec/token"}},
	}
	for i, s := range all {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var stored apply.Strategy
		if err := json.Unmarshal(b, &stored); err != nil {
			t.Fatal(err)
		}
		for j, other := range all {
			if got := stored.Equal(other); got != (i == j) {
				t.Errorf("%+v equal to %+v: %v", s, other, got)
			}
		}
	}
	empty := apply.Strategy{Ignore: []drift.IgnoreRule{}}
	if !empty.Equal(apply.Strategy{}) {
		t.Error("an empty list is not the same as none")
	}
}
