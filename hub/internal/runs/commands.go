package runs

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// sendCommand sends the run the command that spec.state asks for, once for each generation of the
// spec.
func (r *Reconciler) sendCommand(ctx context.Context, obj *unstructured.Unstructured, st fleet.Status) error {
	verb := commandFor(r.stateOf(obj), &st.Run)
	if verb == "" || verb == stages.Start && obj.GetGeneration() == 1 {
		return nil // the run began with generation 1, so another client of the engine stopped it
	}
	if err := r.Recheck(ctx, api.ScopeOf(api.KeyOf(obj)).GVR(api.RunKind), obj); err != nil {
		return err
	}
	err := r.Engine.Run(st.Run.Name).Command(ctx, stages.Command{
		ID: commandID(obj, st.Plan), Verb: verb,
		By: approval.Identity{Name: fmt.Sprintf("spec.state of generation %d", obj.GetGeneration())},
	})
	if _, ended := errors.AsType[*stages.RefusedError](err); ended || errors.Is(err, backend.ErrConflict) {
		return nil
	}
	return err
}

// commandID is the same for the same generation of an object. The object of a rollback may be
// made again and then begins with generation 1, so its UID is part of the ID.
func commandID(obj *unstructured.Unstructured, p *stages.Plan) string {
	if p.Rollback == nil {
		return fmt.Sprintf("state-%d", obj.GetGeneration())
	}
	return fmt.Sprintf("state-%s-%d", obj.GetUID(), obj.GetGeneration())
}

// commandFor returns the command that brings a run to its spec's state, or "".
func commandFor(state v1beta1.State, run *step.Run) stages.Verb {
	if run.IsEnded() && run.State != stages.Stopped {
		return ""
	}
	halting := run.State == stages.Stopping || run.State == stages.Stopped
	switch {
	case state == v1beta1.StateStop && run.State == stages.NotStarted:
		return "" // it is held, or begins at any moment and is stopped then
	case state == v1beta1.StateStop && !halting:
		return stages.Stop
	case state == v1beta1.StateRun && (run.Hold || run.State == stages.Stopped || run.State == stages.Stopping && run.Ending == stages.Stopped):
		return stages.Start
	}
	return ""
}
