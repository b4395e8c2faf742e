package fleet

import (
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet/internal/planning"
	"github.com/slipway-dev/slipway/stages"
)

// NoDriftGroup is the group in which the engine itself approves that the clusters of a stage have not
// drifted. A gate whose policy asks for one approval of this group, alone or beside people, passes only when
// they have not. What the engine says holds at a point in time only, see [approval.Decision]: it compares the
// clusters last, once all others have approved and the waits beside the gate have ended. It is the owner's
// alone.
const NoDriftGroup = planning.NoDriftGroup

// NoDrift is a gate that passes once no cluster of the stage or group differs from what its ledger says.
// Until then the run waits, and they are compared again. A run with such a gate is refused where an Updater
// of the host's does what runs do.
func NoDrift() stages.Task {
	return stages.Task{Type: stages.Approval, Approval: &approval.Policy{Quorums: []approval.Quorum{{Group: planning.NoDriftGroup, Count: 1}}}}
}
