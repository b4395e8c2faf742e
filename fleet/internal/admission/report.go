package admission

import (
	"context"
	"fmt"

	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// Report returns the progress of a deletion. Cleaned clusters leave the bindings only when the run
// ends.
func (ad *Admitter) Report(ctx context.Context, rec *record.Placement) (*record.DeletionReport, error) {
	d := rec.Deleting
	out := &record.DeletionReport{Owner: rec.Placement.Owner, By: d.By, End: d.End, Run: d.Run, Since: d.Since}
	held, err := ad.state.BindingsOf(ctx, rec)
	if err != nil && !state.IsLasting(err) {
		return nil, err
	}
	if _, _, err := ad.state.Run(ctx, d.Run); state.IsNotFound(err) {
		out.Clusters = len(held)
		return out, nil
	}
	skipped := map[string]string{}
	s, err := ad.state.Status(ctx, d.Run)
	if state.IsLasting(err) {
		for name := range held {
			skipped[name] = "what became of it cannot be read: " + err.Error()
		}
		out.Clusters = len(held)
		out.Skip(skipped)
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	for name := range held {
		if _, known := s.Plan.Position(name); !known {
			skipped[name] = "the inventory does not have the cluster: what was placed there was left"
		}
	}
	out.Clusters = len(skipped) + len(s.Plan.Clusters)
	states := s.Run.States(s.Plan)
	for pos, state := range states {
		switch {
		case state == stages.Completed:
			out.Done++
		case state == stages.Skipped || state == stages.Failed || s.Run.IsEnded():
			skipped[s.Plan.Clusters[pos].Name] = skippedReason(&s, pos)
		}
	}
	out.Skip(skipped)
	return out, nil
}

// skippedReason returns the reason why a run did not clean a cluster.
func skippedReason(s *state.RunStatus, pos int) string {
	for _, x := range s.Run.Form(runstate.Key{}).Unsuccessful {
		if x.First <= pos && pos <= x.Last && x.Reason != "" {
			return x.Reason
		}
	}
	return fmt.Sprintf("the run that cleans is %s: %s", s.Run.State, s.Run.Reason)
}
