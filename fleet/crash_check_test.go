package fleet_test

import (
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/stages"
)

// checkEvents checks that the journal has every event once, whether it is read from many cursors or
// from few.
func (s crashScenario) checkEvents(h *host, k int) {
	t := h.t
	once := map[string]int{}
	taken := map[string]int64{}
	atATime := 7
	if k%16 != 0 {
		atATime = 90
	}
	events := h.past(atATime)
	h.feed.read()
	for _, ev := range events {
		switch ev.Type {
		case stages.ClusterCompleted, stages.ClusterFailed, stages.ClusterSkipped:
			if s.again[ev.Cluster] {
				continue
			}
			once[ev.Run+" end of "+ev.Cluster]++
		case stages.ClusterStarted, stages.ClusterApplied:
			once[fmt.Sprint(ev.Run, " ", ev.Type, " ", ev.Cluster, ev.Attempt)]++
		case stages.ApprovalRequested:
			once[fmt.Sprint(ev.Run, " ", ev.Type, " ", ev.Request, ev.Attempt)]++
		case stages.ApprovalAccepted, stages.RunStarted, stages.RunCompleted, stages.RunCreated, stages.RunResumed:
			once[fmt.Sprint(ev.Run, " ", ev.Type, " ", ev.Stage)]++
		case stages.RunTaken:
			if ev.Epoch <= taken[ev.Run] {
				t.Errorf("run %s was taken at epoch %d after %d", ev.Run, ev.Epoch, taken[ev.Run])
			}
			taken[ev.Run] = ev.Epoch
		case stages.RunDeleted: // a run that could not be admitted in full
			once[fmt.Sprint(ev.Run, " ", stages.RunCreated, " ")]--
		case stages.SnapshotTaken:
			once[fmt.Sprint(ev.Type, *ev.Index)]++
		case stages.CommandRefused:
			t.Errorf("refused: %s %s\n%s", ev.Command, line(ev), strings.Join(ofRun(events, ev.Run), "\n"))
		}
	}
	for what, n := range once {
		if n != 1 {
			t.Errorf("%d times in the journal: %s", n, what)
		}
	}
	for _, run := range s.runs {
		for c := range h.fleet.Clusters(t.Context()) {
			if once[run+" end of "+c.Name] == 0 && !s.partial {
				t.Errorf("run %s does not tell the end of cluster %s", run, c.Name)
			}
		}
		if d := cmp.Diff(ofRun(events, run), ofRun(h.feed.events, run)); d != "" {
			t.Errorf("read from cursors and followed (-cursors +followed):\n%s", d)
		}
	}
}

// checkChanges checks that no member was changed twice for the same attempt.
func (s crashScenario) checkChanges(h *host) {
	seen := map[string]change{}
	crashed := false
	select {
	case <-h.crashed:
		crashed = true
	default:
	}
	for _, c := range h.rec.all() {
		switch c.Op {
		case "write", "delete":
			key := fmt.Sprint(c.Op, c.Cluster, c.Object, c.At.RunUID, c.At.Attempt)
			if first, twice := seen[key]; twice {
				h.t.Errorf("%s, and before %s", c, first)
			}
			seen[key] = c
		case "touch":
			if !crashed && !s.touches(c) {
				h.t.Errorf("no engine took over: %s", c)
			}
		}
	}
}

// upTo returns the numbers from 1 to n.
func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i + 1
	}
	return out
}
