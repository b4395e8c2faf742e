package driftwatch

import (
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/fleet/internal/record"
)

// What is kept of a cluster is bounded, and still says that it differs.
func TestASightingIsBounded(t *testing.T) {
	long := strings.Repeat("x", 300<<10)
	c := member.ClusterDrift{State: member.Compared, Total: 300, Problems: slices.Repeat([]string{"p"}, 5000)}
	for range 300 {
		c.Objects = append(c.Objects, member.ObjectDrift{Report: drift.Report{
			Name: "o", Total: 1, Fingerprint: "f", Differences: []drift.Difference{{Path: "/" + long}},
		}})
	}
	kept := mergeDrift(&c, &member.ClusterDrift{})
	if n := len(record.Encode(record.Drift{Format: record.Format, ClusterDrift: kept})); n > 512<<10 || len(kept.Objects) != sightedObjects || len(kept.Problems) != sightedProblems+1 {
		t.Errorf("%d bytes, %d objects, %d problems", n, len(kept.Objects), len(kept.Problems))
	}
	if o := kept.Objects[0]; !o.Truncated || o.Fingerprint != "f" || kept.Fingerprint() == "" || c.Objects[0].Truncated {
		t.Errorf("%+v", o.Truncated)
	}
}
