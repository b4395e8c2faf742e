package state

import (
	"context"
	"fmt"
	"strconv"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/member"
)

// LeaseHeld returns an error if, according to the store, the run has ended or another engine has
// it. Concurrent calls for a run share one read that begins after all of them have started.
func (st *State) LeaseHeld(ctx context.Context, a member.Assignment) error {
	_, err := st.leases.DoAfter(ctx, a.RunUID+" "+strconv.FormatInt(a.Epoch, 10), func(ctx context.Context) (struct{}, error) {
		rr, _, err := st.Run(ctx, a.Run)
		switch {
		case IsNotFound(err):
			err = fmt.Errorf("run %s was deleted: %w", a.Run, backend.ErrFenced)
		case err == nil && (rr.Run.UID != a.RunUID || rr.Lease.Epoch != a.Epoch || rr.Run.IsEnded()):
			err = fmt.Errorf("run %s has ended, or another engine has it: %w", a.Run, backend.ErrFenced)
		}
		return struct{}{}, err
	})
	return err
}
