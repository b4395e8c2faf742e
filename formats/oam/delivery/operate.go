package delivery

import (
	"context"
	"errors"
	"fmt"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/oam"
)

// Verb is an operation on a workflow, in KubeVela's terms.
type Verb string

// The verbs.
const (
	// Suspend stops a workflow; running steps finish.
	Suspend Verb = "suspend"
	// Resume resumes a suspended workflow, or one of its steps alone.
	Resume Verb = "resume"
	// Terminate ends it permanently, except for the steps that always run.
	Terminate Verb = "terminate"
	// Restart repeats it with the same objects, from the beginning or from a failed step.
	Restart Verb = "restart"
	// Rollback rolls back every cluster that the workflow changed, if the annotation
	// slipway.dev/rollback of its application allows it.
	Rollback Verb = "rollback"
)

// Request is an operation on the workflow of an application.
type Request struct {
	Namespace, Name string
	Verb            Verb
	// Step is the step that Resume resumes alone, or from which Restart begins; "" for none.
	Step string
	// By is the requester's identity, authenticated by the host. It is recorded, and is the identity
	// of an approval.
	By approval.Identity
}

// Do carries out an operation on the last workflow of an application and returns the output of
// KubeVela's command line. It returns when the operation is recorded; engines in Start carry it
// out. If no workflow has begun, the error matches [backend.ErrNotFound]; an impossible operation
// is an error with KubeVela's text.
func (a *Applications) Do(ctx context.Context, r Request) (message string, err error) {
	rec, err := a.Last(ctx, r.Namespace, r.Name)
	if err != nil {
		return "", err
	}
	switch {
	case r.Verb == Restart:
		return a.restart(ctx, r, rec)
	case r.Verb == Rollback && rec.Release.Run.Strategy.Rollback == nil:
		return "", fmt.Errorf("can not rollback a workflow that began without the annotation %s of application %s", oam.RollbackAnnotation, r.Name)
	}
	return operate(ctx, a.Engine.Run(rec.Run.Name), rec, r)
}

// operate writes only to the run of a workflow, so it cannot restart one.
func operate(ctx context.Context, run Run, rec oam.Record, r Request) (message string, err error) {
	var op oam.Operation
	switch r.Verb {
	case Suspend:
		op, err = rec.Suspend(r.By)
	case Resume:
		op, err = rec.Resume(r.Step, r.By)
	case Terminate:
		op, err = rec.Terminate(r.By)
	case Rollback:
		op.Message = "Successfully rollback workflow: " + r.Name
		_, err = run.Rollback(ctx, fleet.RollbackOptions{By: r.By})
	case Restart:
		err = errors.New("can not restart a workflow through the API of the process that has the store: end that process first")
	default:
		err = fmt.Errorf("%q is no verb: want suspend, resume, terminate, restart or rollback", r.Verb)
	}
	if err != nil {
		return "", err
	}
	for _, command := range op.Commands {
		if err := run.Command(ctx, command); err != nil {
			return "", err
		}
	}
	return op.Message, nil
}

// restart makes a run that repeats a workflow.
func (a *Applications) restart(ctx context.Context, r Request, rec oam.Record) (message string, err error) {
	again, op, err := rec.Restart(r.Step, 2)
	if err != nil {
		return "", err
	}
	last, err := a.published(ctx, r.Namespace, r.Name)
	if err != nil {
		return "", err
	}
	again.Run.Starter = r.By
	_, err = a.begin(ctx, last, again)
	return op.Message, err
}
