package step

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/stages"
)

// inGroups divides the only stage of a plan into groups of the same size, each with at most most
// clusters in flight.
func inGroups(p *stages.Plan, groups, most int) *stages.Plan {
	st := &p.Stages[0]
	size := p.Len() / groups
	st.Groups = nil
	for i := range groups {
		st.Groups = append(st.Groups, stages.PlannedGroup{Name: fmt.Sprintf("g%d", i), First: i * size, Len: size, MaxConcurrency: most, MaxFailures: -1})
	}
	return p
}

// The ranges of clusters that wait for their windows are bounded over all groups of a stage
// together, for any number of groups. Every cluster still gets its turn.
func TestAlternatingWindowsAreBoundedInAllGroupsTogether(t *testing.T) {
	for _, groups := range []int{5, 100, 1000} {
		p := inGroups(benchPlan(t, 10000, 1000), groups, 10)
		c := calendarOf(func(pos int, at time.Time) stages.Window {
			if pos%2 == 0 {
				return stages.Window{}
			}
			w := opensAt(at, scriptEpoch.Add(time.Duration(1+pos%7)*time.Hour))
			w.Reason = fmt.Sprintf("%d%s", pos, strings.Repeat("x", 100))
			return w
		})
		ready, largest := completes(t, p, begun(p, c), c)
		if ready.Run.State != stages.Completed || largest > maxRecord*3/4 {
			t.Errorf("%d groups: the run is %s, its record had %d bytes", groups, ready.Run.State, largest)
		}
	}
}
