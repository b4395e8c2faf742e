package fleet

import (
	"github.com/slipway-dev/slipway/fleet/internal/admission"
	"github.com/slipway-dev/slipway/fleet/internal/state"
)

// NotFoundError says that a host named something that does not exist. It matches backend.ErrNotFound. Its
// fields are
//
//	Kind  string  placement, run, snapshot, selection, deletion, cluster, request or cap
//	Name  string
//	Hint  string  what would be right
type NotFoundError = state.NotFoundError

// ErrDeleting is matched by the error of every operation that a placement refuses while it is being deleted.
var ErrDeleting = state.ErrDeleting

// DeletingError says that a placement is being deleted. It matches [ErrDeleting] and backend.ErrPermanent. Its
// fields are
//
//	Placement  string
//	Since      time.Time
type DeletingError = state.DeletingError

// PlanChangedError says that a run was to be made of a plan that was previewed, and something has changed
// since. Its fields are
//
//	Run        string
//	Want, Got  string  the digests of the plan that was previewed and of the one that it would be now
type PlanChangedError = admission.PlanChangedError
