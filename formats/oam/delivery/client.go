package delivery

import (
	"context"
	"errors"
	"slices"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/oam"
	"github.com/slipway-dev/slipway/stages"
)

// Client controls workflows through the API of the process that has the store. It knows only the
// data of that API about their runs. It may be used concurrently if its functions may.
type Client struct {
	// Runs returns the runs of a placement, as [fleet.PlacementHandle.Runs] does.
	Runs func(ctx context.Context, placement string) ([]fleet.RunSummary, error)
	// Run returns the handle of a run.
	Run func(name string) Run
}

// Run is the part of a run's handle that a [Client] uses: the handle of an API's client or of an
// engine.
type Run interface {
	Status(ctx context.Context) (fleet.Status, error)
	Command(ctx context.Context, c stages.Command) error
	Rollback(ctx context.Context, o fleet.RollbackOptions) (string, error)
}

// Last returns the newest workflow of an application like [Applications.Last], but its steps come
// from the plan, and the objects of its components are unknown.
func (c Client) Last(ctx context.Context, namespace, name string) (oam.Record, error) {
	runs, err := c.Runs(ctx, PlacementOf(namespace, name))
	if err != nil && !errors.Is(err, backend.ErrNotFound) {
		return oam.Record{}, err
	}
	for _, run := range slices.Backward(runs) {
		st, err := c.Run(run.Name).Status(ctx)
		if err != nil {
			return oam.Record{}, err
		}
		if st.Plan.Rollback == nil {
			return outlined(namespace, name, st), nil
		}
	}
	return oam.Record{}, noWorkflow(namespace, name)
}

// Do is [Applications.Do] except for restarting a workflow, which needs the store.
func (c Client) Do(ctx context.Context, r Request) (message string, err error) {
	rec, err := c.Last(ctx, r.Namespace, r.Name)
	if err != nil {
		return "", err
	}
	return operate(ctx, c.Run(rec.Run.Name), rec, r)
}

// outlined returns the record of a workflow from its run alone.
func outlined(namespace, name string, st fleet.Status) oam.Record {
	release := &oam.Release{Namespace: namespace, Name: name, Run: fleet.RunSpec{Name: st.Run.Name, Placement: st.Run.Placement}}
	for i := range st.Plan.Stages {
		stage := &st.Plan.Stages[i]
		if stage.Remove {
			continue
		}
		step := outlinedStep(stage.Name, stage.Pause, stage.Gates)
		for _, g := range stage.Groups {
			if g.Name != "" {
				step.Type, step.Steps = oam.GroupStep, append(step.Steps, outlinedStep(g.Name, g.Pause, g.Gates))
			}
		}
		if stage.Name == oam.GraphName {
			release.Workflow.Mode.Steps = oam.DAG
			release.Workflow.Steps = append(release.Workflow.Steps, step.Steps...)
			continue
		}
		release.Workflow.Steps = append(release.Workflow.Steps, step)
	}
	return oam.Record{Release: release, Plan: st.Plan, Run: &st.Run}
}

func outlinedStep(name string, pause bool, gates []stages.PlannedGate) oam.Step {
	if pause {
		return oam.Step{Name: name, Type: oam.SuspendStep, Suspend: &oam.Suspend{}}
	}
	manual := slices.ContainsFunc(gates, func(g stages.PlannedGate) bool { return g.When == approval.Before && g.Type == stages.Approval })
	return oam.Step{Name: name, Type: oam.DeployStep, Deploy: &oam.Deploy{Manual: manual}}
}
