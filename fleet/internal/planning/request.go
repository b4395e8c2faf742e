package planning

import (
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

// Request is what a run is made of. It is what [RunSpec] asks for.
type Request struct {
	Name, Owner, Title, Placement string
	Index                         *int
	Strategy                      stages.Strategy
	Hold                          bool
	Plan                          string
	// Version is the version of the placement that the run was decided on, empty for any.
	Version string
	Starter approval.Identity
}
