package requests

import (
	"iter"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/hub/status"
)

// gateName is an approval of a run.
type gateName struct {
	Stage string
	When  approval.When
}

func (g gateName) String() string { return status.Side(g.When) + " stage " + g.Stage }

// RunsOfRequest yields every name that a run could have whose request is called so. There may be two of them: an earlier
// version of the hub called the request of run x-before after stage prod as that of run x before it.
func RunsOfRequest(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i, c := range name {
			if c == '-' && i > 0 && !yield(name[:i]) {
				return
			}
		}
	}
}
