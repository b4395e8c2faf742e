package delivery

import (
	"context"
	"errors"
	"fmt"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/oam"
	"github.com/slipway-dev/slipway/stages"
)

// Verb is what is done to a workflow, in KubeVela's words.
type Verb string

// The verbs.
const (
	// Suspend stops a workflow; what is under way ends.
	Suspend Verb = "suspend"
	// Resume lets a suspended one go on, or one of its steps alone.
	Resume Verb = "resume"
	// Terminate ends it for good, but for the steps that run always.
	Terminate Verb = "terminate"
	// Restart carries it out again with the same objects, or from a step on that has failed.
	Restart Verb = "restart"
	// Rollback takes every cluster that the workflow changed back to what it had, where the annotation
	// slipway.dev/rollback of its application allows that.
	Rollback Verb = "rollback"
)

// Request is an operation on the workflow of an application.
type Request struct {
	Namespace, Name string
	Verb            Verb
	// Step is the step that Resume resumes alone, or that Restart begins from; "" for none.
	Step string
	// By is the identity that asks, as the host authenticated it. It is recorded, and an approval is given by it.
	By approval.Identity
}

// operable is what operations need of an engine.
type operable interface {
	Status(ctx context.Context, run string) (fleet.Status, error)
	Command(ctx context.Context, run string, c stages.Command) error
	Decide(ctx context.Context, run string, a fleet.Answer) error
	Rollback(ctx context.Context, run string, o fleet.RollbackOptions) (string, error)
}

// Do carries out an operation on the last workflow of an application and returns what KubeVela's command line prints
// about it. It returns once the operation is recorded; engines in Run carry it out. Where no workflow has begun the
// error matches [backend.ErrNotFound], and where what is asked for is not possible it is in KubeVela's words.
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
	return operate(ctx, a.Engine, rec, r)
}

// operate writes nothing but to the run of a workflow, and so it cannot restart one.
func operate(ctx context.Context, runs operable, rec oam.Record, r Request) (message string, err error) {
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
		_, err = runs.Rollback(ctx, rec.Run.Name, fleet.RollbackOptions{By: r.By})
	case Restart:
		err = errors.New("can not restart a workflow through the API of the process that has the store: end that process first")
	default:
		err = fmt.Errorf("%q is no verb: want suspend, resume, terminate, restart or rollback", r.Verb)
	}
	if err != nil {
		return "", err
	}
	for _, answer := range op.Answers {
		if err := runs.Decide(ctx, rec.Run.Name, answer); err != nil {
			return "", err
		}
	}
	for _, command := range op.Commands {
		if err := runs.Command(ctx, rec.Run.Name, command); err != nil {
			return "", err
		}
	}
	return op.Message, nil
}

// restart makes the run that carries a workflow out again.
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
