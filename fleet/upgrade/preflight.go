package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
)

// Preflight checks all clusters of a plan: see [Check]. A cluster that cannot be described now is
// checked when it starts, unless the error is permanent.
func (u *updater) Preflight(ctx context.Context, intents []backend.Intent) error {
	var errs []error
	for i := range intents {
		errs = append(errs, u.preflight(ctx, &intents[i]))
	}
	return errors.Join(errs...)
}

func (u *updater) preflight(ctx context.Context, in *backend.Intent) error {
	t, err := TargetOf(in.Content)
	if err != nil {
		return fmt.Errorf("%w: %w", backend.ErrPermanent, err)
	}
	upgraded := slices.DeleteFunc(slices.Clone(in.Clusters), func(c placement.Cluster) bool { return t.exclusionReason(c.Name) != "" })
	described, failed := describe(ctx, u.provider, upgraded)
	if err := ctx.Err(); err != nil {
		return err
	}
	clusters := make(map[string]Cluster, len(described))
	for _, d := range described {
		clusters[d.name] = d.Cluster
	}
	return errors.Join(joined(lasting(failed)), Check(clusters, t))
}

// lasting returns the descriptions that failed with a permanent error.
func lasting(failed []description) (out []description) {
	for _, d := range failed {
		if errors.Is(permanently(d.err), backend.ErrPermanent) {
			out = append(out, d)
		}
	}
	return out
}
