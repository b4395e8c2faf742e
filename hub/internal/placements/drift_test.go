package placements

import (
	"context"
	"errors"
	"testing"

	"github.com/slipway-dev/slipway/drift"
)

// The drift of a placement is read for each status while there is any. If there was none, it is
// read again only after it was recorded, also if that happened during the last read.
func TestDriftIsReadAgainOnceItIsRecorded(t *testing.T) {
	var d Drifts
	reads, failing := 0, error(nil)
	found := map[string]*drift.ClusterReport{}
	during := func() {}
	read := func(context.Context, string) (map[string]*drift.ClusterReport, error) {
		reads++
		during()
		return found, failing
	}
	show := func(want int) {
		t.Helper()
		reads = 0
		for range 3 {
			if out, err := d.shown(t.Context(), "web", read); err == nil && len(out) != len(found) {
				t.Errorf("%d reports, want %d", len(out), len(found))
			}
		}
		if reads != want {
			t.Errorf("%d reads for three statuses, want %d", reads, want)
		}
	}
	show(1)
	d.Recorded("other")
	show(0)
	d.Recorded("web")
	show(1)
	found["member1"] = &drift.ClusterReport{}
	d.Recorded("web")
	show(3)
	clear(found)
	show(1)
	failing = errors.New("the API server does not answer")
	d.Recorded("web")
	show(3)
	failing = nil
	during = func() { d.Recorded("web") }
	show(3)
	during = func() {}
	show(1)
}
