package requests

import (
	"iter"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/hub/internal/status"
)

// gateName identifies an approval of a run.
type gateName struct {
	Stage string
	When  approval.When
}

func (g gateName) String() string { return status.Side(g.When) + " stage " + g.Stage }

// RunsOfRequest yields the names of all runs to which a request of that name may belong. Two of
// them may exist: an earlier version of the hub gave the request of run x-before after stage prod
// the same name as the request of run x before stage prod.
func RunsOfRequest(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i, c := range name {
			if c == '-' && i > 0 && !yield(name[:i]) {
				return
			}
		}
	}
}
