package hub

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// roll starts the run of a placement with strategy RollingUpdate, where the one
// that it started last was for another snapshot or for other clusters. A run
// that is still under way is superseded.
func (s *service) roll(ctx context.Context, k key, p fleet.Placement, rollout kubefleet.Rollout, latest snapshot.Snapshot, decision placement.Decision) error {
	number, err := s.lastRolling(ctx, p.Name)
	if err != nil {
		return err
	}
	s.rolling.Store(rollingName(p.Name, number), k)
	if number > 0 {
		last, err := s.engine.Status(ctx, rollingName(p.Name, number))
		switch {
		case errors.Is(err, backend.ErrNotFound):
		case err != nil:
			return err
		case last.Plan.Index == latest.Index && last.Plan.Decision == decision.Digest:
			return nil
		}
	}
	items, err := s.engine.Items(ctx, p.Name, latest.Index)
	if err != nil {
		return err
	}
	s.rolling.Store(rollingName(p.Name, number+1), k)
	_, err = s.engine.CreateRun(ctx, fleet.RunSpec{
		Name: rollingName(p.Name, number+1), Owner: p.Owner, Placement: p.Name, Index: &latest.Index,
		Strategy: rollout.Strategy(items), Starter: approval.Identity{Name: manager},
	})
	return err
}

// rollingName is what the engine calls the nth run that a placement started
// itself. No object has such a name, see kubefleet.EngineName.
func rollingName(name string, n int) string {
	const longest = 63
	numbered := rollingPrefix + strconv.Itoa(n) + "."
	if len(numbered)+len(name) <= longest {
		return numbered + name
	}
	return numbered + snapshot.Digest([]byte(name))[:32]
}

const rollingPrefix = "r."

// lastRolling is the number of the last run that a placement started itself, 0
// for none.
func (s *service) lastRolling(ctx context.Context, name string) (int, error) {
	names, err := s.engine.Runs(ctx, name)
	if err != nil {
		return 0, err
	}
	last := 0
	for _, run := range names {
		if rest, ok := strings.CutPrefix(run, rollingPrefix); ok {
			number, _, _ := strings.Cut(rest, ".")
			if n, err := strconv.Atoi(number); err == nil {
				last = max(last, n)
			}
		}
	}
	return last, nil
}

// placementsOf are the placements of a run, of an object or one that the hub
// started itself.
func (s *service) placementsOf(run string) []key {
	if k, ok := s.rolling.Load(run); ok {
		return []key{k.(key)}
	}
	var out []key
	for _, k := range s.called(runKind, run) {
		if obj := s.object(scopeOf(k).gvr(runKind), k); obj != nil {
			out = append(out, key{Namespace: k.Namespace, Name: specString(obj, "placementName")})
		}
	}
	return out
}
