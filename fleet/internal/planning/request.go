package planning

import (
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

// Request holds the parameters of a run, taken from fleet.RunSpec.
type Request struct {
	Name, Owner, Title, Placement string
	Index                         *int
	Strategy                      stages.Strategy
	Hold                          bool
	Plan                          string
	// Version is the version of the placement that the run was decided on; empty accepts any
	// version.
	Version string
	Starter approval.Identity
}
