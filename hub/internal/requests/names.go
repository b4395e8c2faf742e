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

// RunsOfRequest yields the names of all runs to which a request of that name may belong. More than
// one of these runs may exist. For example, an earlier version of the hub named two requests
// x-before-prod: the request after stage prod of run x-before, and the request before stage prod of
// run x.
func RunsOfRequest(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i, c := range name {
			if c == '-' && i > 0 && !yield(name[:i]) {
				return
			}
		}
	}
}
