package driftwatch

import (
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet/internal/record"
)

// TestARecordIsBounded checks that stored drift is bounded, and still counts as different.
func TestARecordIsBounded(t *testing.T) {
	long := strings.Repeat("x", 300<<10)
	c := drift.ClusterReport{State: drift.Compared, Total: 300, Problems: slices.Repeat([]string{"p"}, 5000)}
	for range 300 {
		c.Objects = append(c.Objects, drift.ObjectReport{Report: drift.Report{
			Name: "o", Total: 1, Fingerprint: "f", Differences: []drift.Difference{{Path: "/" + long}},
		}})
	}
	stored := mergeDrift(&c, &drift.ClusterReport{})
	if n := len(record.Encode(record.Drift{Format: record.Format, ClusterReport: stored})); n > 512<<10 || len(stored.Objects) != recordedObjects || len(stored.Problems) != recordedProblems+1 {
		t.Errorf("%d bytes, %d objects, %d problems", n, len(stored.Objects), len(stored.Problems))
	}
	if o := stored.Objects[0]; !o.Truncated || o.Fingerprint != "f" || stored.Fingerprint() == "" || c.Objects[0].Truncated {
		t.Errorf("%+v", o.Truncated)
	}
}
