package placements

import (
	"testing"

	"github.com/slipway-dev/slipway/hub/internal/api"
)

// TestTheLabelOfAMark: "true" sets the mark and "false" removes it, each once; without a label
// nothing changes. The hub writes the label if the snapshot is marked and the object has no label.
func TestTheLabelOfAMark(t *testing.T) {
	for _, c := range []struct {
		label        string
		marked       bool
		want         markChange
		written      any
		irreversible bool
	}{
		{"", false, markKept, nil, false},
		{"", true, markKept, "true", true},
		{"true", false, markSet, nil, true},
		{"true", true, markKept, nil, true},
		{"false", true, markTaken, nil, false},
		{"false", false, markKept, nil, false},
		{"yes", false, markWrong, nil, false},
		{"yes", true, markWrong, nil, true},
	} {
		if got := markAsked(c.label, c.marked); got != c.want {
			t.Errorf("label %q of a snapshot, marked %t, asks for %d, want %d", c.label, c.marked, got, c.want)
		}
		have := map[string]string{api.LabelLatest: "false"}
		if c.label != "" {
			have[api.LabelIrreversible] = c.label
		}
		snap := shownSnapshot{irreversible: c.irreversible}
		if got := snap.labelsMissing(have)[api.LabelIrreversible]; got != c.written {
			t.Errorf("label %q of a snapshot, marked %t then: written is %v, want %v", c.label, c.irreversible, got, c.written)
		}
	}
}
