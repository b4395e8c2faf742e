package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/formats/oam"
)

// workflow does something to the workflow of an application, as kubectl amc workflow does.
func (s *session) workflow(ctx context.Context, verb, name string) error {
	objs, err := collect(ctx, s.hub, applications.query(s.namespace, name))
	if err != nil {
		return err
	}
	if len(objs) == 0 {
		return s.notFound(applications, name)
	}
	last, err := s.published(ctx, objs[0])
	if err != nil {
		return err
	}
	if !last.isThere() {
		return s.fail("Error: the workflow of application %s has not begun", name)
	}
	rec, err := s.progress(ctx, &last.Release)
	if err != nil {
		return err
	}
	return s.operate(ctx, verb, &last, rec)
}

// operate carries out what a verb means for a workflow as it stands.
func (s *session) operate(ctx context.Context, verb string, last *record, rec oam.Record) (err error) {
	var op oam.Operation
	var again oam.Release
	switch verb {
	case "suspend":
		op, err = rec.Suspend(s.by)
	case "resume":
		op, err = rec.Resume(s.step, s.by)
	case "terminate":
		op, err = rec.Terminate(s.by)
	case "restart":
		again, op, err = rec.Restart(s.step, 2)
	}
	if err != nil {
		return s.fail("Error: %v", err)
	}
	if verb == "restart" {
		if _, err := s.begin(ctx, last, again); err != nil {
			return err
		}
	}
	if err := s.ask(ctx, rec.Run.Name, op); err != nil {
		return err
	}
	return s.say("%s", op.Message)
}

// ask gives the commands and the answers of an operation to a run.
func (s *session) ask(ctx context.Context, run string, op oam.Operation) error {
	for _, a := range op.Answers {
		if err := s.engine.Decide(ctx, run, a); err != nil {
			return err
		}
	}
	for _, c := range op.Commands {
		if err := s.engine.Command(ctx, run, c); err != nil {
			return err
		}
	}
	return nil
}

// progress reads what has become of a release.
func (c *controller) progress(ctx context.Context, release *oam.Release) (oam.Record, error) {
	st, err := c.engine.Status(ctx, release.Run.Name)
	return oam.Record{Release: release, Plan: st.Plan, Run: &st.Run}, err
}

// status returns the status of an application, and whether that changes by itself. A problem is what keeps
// the next workflow from beginning.
func (c *controller) status(ctx context.Context, app *unstructured.Unstructured, last *record, problem error) (status map[string]any, moving bool, err error) {
	var shown oam.AppStatus
	if last.isThere() {
		rec, err := c.progress(ctx, &last.Release)
		switch {
		case errors.Is(err, backend.ErrNotFound) && problem != nil: // its run could not be made
		case err != nil:
			return nil, false, err
		default:
			shown = oam.NewStatus(rec)
			if moving, err = c.moves(ctx, rec); err != nil {
				return nil, false, err
			}
		}
	}
	if problem != nil {
		shown = oam.Refused(shown, problem, time.Now())
		keepTimes(app, shown.Conditions)
	}
	status, err = tree(shown)
	return status, moving, err
}

// keepTimes gives conditions that an application has already the times since when it has them.
func keepTimes(app *unstructured.Unstructured, conditions []metav1.Condition) {
	list, _, _ := unstructured.NestedSlice(app.Object, "status", "conditions")
	for _, element := range list {
		old, _ := element.(map[string]any)
		at, err := time.Parse(time.RFC3339, text(old["lastTransitionTime"]))
		for i := range conditions {
			if c := &conditions[i]; err == nil && c.Type == old["type"] && c.Message == old["message"] {
				c.LastTransitionTime = metav1.NewTime(at)
			}
		}
	}
}

// tree is a value as an object has it.
func tree(v any) (out map[string]any, err error) {
	encoded, err := json.Marshal(v)
	if err == nil {
		err = utiljson.Unmarshal(encoded, &out)
	}
	return out, err
}
