package hubapi

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/hub/compat"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/status"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// manager is the field manager of changes for a caller.
const manager = "slipway"

// answerWithin limits how long a change waits for the hub's answer. After that the change stands
// without an answer, because the hub may be down or wait for other objects.
const answerWithin = 3 * time.Second

// change updates an object with the caller's rights, and names role if these are missing. The
// function change is called again after a conflict. A subresource may be named.
func (h *Hub) change(ctx context.Context, kind, name, role string, change func(u *unstructured.Unstructured) error, subresources ...string) (u *unstructured.Unstructured, err error) {
	k := h.key(name)
	objects := h.resource(kind, k.Namespace)
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if u, err = objects.Get(ctx, k.Name, metav1.GetOptions{}); err != nil {
			return explain(err, k.Namespace, "viewer")
		}
		if err = change(u); err == nil {
			u, err = objects.Update(ctx, u, metav1.UpdateOptions{FieldManager: manager}, subresources...)
		}
		return explain(err, k.Namespace, role)
	})
	if err != nil {
		return nil, err
	}
	return u, nil
}

// object reads an object with the caller's rights.
func object(ctx context.Context, h *Hub, kind, name string) (*unstructured.Unstructured, error) {
	k := h.key(name)
	u, err := h.resource(kind, k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
	return u, explain(err, k.Namespace, "viewer")
}

// await reads a changed object until done reports that the hub has answered.
func (h *Hub) await(ctx context.Context, kind, name string, done func(u *unstructured.Unstructured) (bool, error)) error {
	k := h.key(name)
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, answerWithin, true, func(ctx context.Context) (bool, error) {
		u, err := h.resource(kind, k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return done(u)
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return nil
	}
	return err
}

// decide answers a request of a run by a condition in its status. The admission policies of the
// hub record the user whom the API server authenticates as the author. If the hub refuses the
// answer, decide returns the refusal as its error.
func (h *Hub) decide(ctx context.Context, run string, c stages.Command) error {
	if c.Decision == nil {
		return refused("run %s: a decision has no verdict", run)
	}
	a := c.Decision
	u, err := h.change(ctx, api.ApprovalKind, c.Name, "approver", func(u *unstructured.Unstructured) (err error) {
		if err := takesAnswer(h, u, run, &c); err != nil {
			return err
		}
		u.Object["status"], err = status.WithAnswer(u, a.Verdict, a.Comment, time.Now())
		return err
	}, "status")
	if err != nil {
		return err
	}
	author := map[approval.Verdict]string{approval.Approve: "approvedBy", approval.Reject: "rejectedBy"}[a.Verdict]
	by, _, _ := unstructured.NestedString(u.Object, "status", author, "username")
	return h.await(ctx, api.ApprovalKind, c.Name, func(u *unstructured.Unstructured) (bool, error) {
		decided, refusal := status.AnswerOutcome(u, by)
		if refusal != "" {
			return true, refused("request %s: the hub does not count the answer: %s", c.Name, refusal)
		}
		return decided, nil
	})
}

// takesAnswer returns an error if a request does not take the answer to it.
func takesAnswer(h *Hub, u *unstructured.Unstructured, run string, c *stages.Command) error {
	r, open, err := status.OpenRequest(u)
	switch a := c.Decision; {
	case err != nil:
		return err
	case r.Run != h.key(run).Name:
		return fmt.Errorf("request %s is one of run %s: %w", c.Name, h.shown(u.GetNamespace(), r.Run), backend.ErrNotFound)
	case a.Binding != (approval.Binding{}) && a.Binding != r.Binding:
		return fmt.Errorf("request %s was made again since it was shown: %w", c.Name, backend.ErrConflict)
	case !open:
		return fmt.Errorf("request %s was decided: %w", c.Name, backend.ErrConflict)
	}
	return nil
}

// command starts or stops a run by its spec.state, or decides a request.
func (h *Hub) command(ctx context.Context, run string, c stages.Command) error {
	if c.Verb == stages.Decide {
		return h.decide(ctx, run, c)
	}
	state, err := stateAfter(run, &c)
	if err == nil {
		_, err = h.setState(ctx, run, c.Verb, state)
	}
	return err
}

// stateAfter returns the spec.state of a run that a command asks for.
func stateAfter(run string, c *stages.Command) (v1beta1.State, error) {
	state, known := map[stages.Verb]v1beta1.State{stages.Start: v1beta1.StateRun, stages.Stop: v1beta1.StateStop}[c.Verb]
	if !known {
		return "", refused("run %s: a hub has no %s of a run; it has start, stop, rollback, approve, reject and delete run", run, c.Verb)
	}
	if c.Message != "" {
		return "", refused("run %s: a hub records no reason: leave --message out", run)
	}
	return state, nil
}

// checkCommand returns the error with which command would refuse a command now, before the hub
// answers. Nothing is written.
func checkCommand(ctx context.Context, h *Hub, run string, c stages.Command) error {
	if c.Verb == stages.Decide {
		if c.Decision == nil {
			return refused("run %s: a decision has no verdict", run)
		}
		u, err := object(ctx, h, api.ApprovalKind, c.Name)
		if err == nil {
			err = takesAnswer(h, u, run, &c)
		}
		return err
	}
	state, err := stateAfter(run, &c)
	if err != nil {
		return err
	}
	setting, err := h.setting(ctx)
	if err != nil {
		return err
	}
	u, err := object(ctx, h, api.RunKind, run)
	if err == nil {
		err = takesState(h, u, run, c.Verb, state, setting)
	}
	return err
}

// setState sets spec.state of a run. It refuses a state that has no effect on the run.
func (h *Hub) setState(ctx context.Context, run string, verb stages.Verb, state v1beta1.State) (*unstructured.Unstructured, error) {
	setting, err := h.setting(ctx)
	if err != nil {
		return nil, err
	}
	return h.change(ctx, api.RunKind, run, "editor", func(u *unstructured.Unstructured) error {
		if err := takesState(h, u, run, verb, state, setting); err != nil {
			return err
		}
		return unstructured.SetNestedField(u.Object, string(state), "spec", "state")
	})
}

// takesState returns an error if a spec.state has no effect on a run.
func takesState(h *Hub, u *unstructured.Unstructured, run string, verb stages.Verb, state v1beta1.State, setting compat.Setting) error {
	if err := withoutEffect(u, verb, setting); err != nil && verb == stages.RequestRollback {
		return fmt.Errorf("run %s %w", run, err)
	} else if err != nil {
		return fmt.Errorf("run %s: %w", run, err)
	}
	now, set, _ := unstructured.NestedString(u.Object, "spec", "state")
	if now == string(state) && verb == stages.RequestRollback {
		return rolledBack(u, run, h.shown)
	}
	if now == string(state) || !set && state == v1beta1.StateRun {
		return fmt.Errorf("run %s: spec.state is %s already, and the hub acts when it changes: %w", run, state, backend.ErrConflict)
	}
	return nil
}

// withoutEffect returns a [*stages.RefusedError] if the run has ended, or has not begun, and the
// command therefore changes nothing.
func withoutEffect(u *unstructured.Unstructured, verb stages.Verb, setting compat.Setting) error {
	s, why, err := status.Unrecorded(u, setting)
	if err != nil {
		return err
	}
	run := step.Run{State: s.State}
	switch rollback := verb == stages.RequestRollback; {
	case api.InitializeFailed(u) && !rollback && !setting.Behaviour().RefusedForGood:
		return nil // the hub plans it again
	case api.InitializeFailed(u):
		return &stages.RefusedError{Verb: verb, State: s.State, Reason: why}
	case rollback && s.State == stages.NotStarted && !api.IsBegun(u):
		return &stages.RefusedError{Verb: verb, State: s.State, Reason: "it has not changed anything: delete it instead"}
	case !rollback && run.IsEnded() && s.State != stages.Stopped:
		return &stages.RefusedError{Verb: verb, State: s.State, Reason: "the run has ended as " + string(s.State)}
	case s.State == "":
		return &stages.RefusedError{Verb: verb, Reason: s.Problem}
	}
	return nil
}

// rollback rolls back a run, and returns the name of the rollback if the hub reports it in time.
func (h *Hub) rollback(ctx context.Context, run string, o fleet.RollbackOptions) (name string, err error) {
	if o.Name != "" || o.Reason != "" {
		return "", refused("run %s: a hub names the run that rolls back itself, and records no reason: leave --name and --reason out", run)
	}
	u, err := h.setState(ctx, run, stages.RequestRollback, v1beta1.StateRollback)
	if err != nil {
		return "", err
	}
	generation := u.GetGeneration()
	err = h.await(ctx, api.RunKind, run, func(u *unstructured.Unstructured) (bool, error) {
		by, refusal, answered := status.RollbackOutcome(u, generation)
		if refusal != "" {
			return true, notRolledBack(run, refusal)
		}
		name = h.shown(u.GetNamespace(), by)
		return answered, nil
	})
	return name, err
}

// rolledBack returns the error of a second request to roll back a run. shown returns the name of an
// object.
func rolledBack(u *unstructured.Unstructured, run string, shown func(namespace, name string) string) error {
	switch by, refusal, answered := status.RollbackOutcome(u, u.GetGeneration()); {
	case refusal != "":
		return notRolledBack(run, refusal)
	case answered && by != "":
		return refused("run %s cannot be rolled back: run %s rolls it back already, or has done so", run, shown(u.GetNamespace(), by))
	default:
		return refused("run %s cannot be rolled back: its rollback is requested already, and the hub has not answered yet", run)
	}
}

// notRolledBack returns the error of a rollback that the hub refuses.
func notRolledBack(run, refusal string) error {
	if _, why, is := strings.Cut(refusal, "cannot be rolled back: "); is {
		refusal = why
	}
	return refused("run %s cannot be rolled back: %s", run, strings.TrimPrefix(refusal, status.NotRolledBack))
}

// createRun creates the object of a run. The spec must name a strategy of the hub. If the hub
// refuses the run, createRun returns the refusal as its error.
func (h *Hub) createRun(ctx context.Context, spec fleet.RunSpec) error {
	k, placed := h.key(spec.Name), h.key(spec.Placement)
	switch {
	case len(spec.Strategy.Stages) > 0 || spec.Strategy.Name == "":
		kind := "ClusterStagedUpdateStrategy"
		if k.Namespace != "" {
			kind = "StagedUpdateStrategy"
		}
		return refused("run %s: a hub takes the name of a %s that it has, and no file", spec.Name, kind)
	case k.Namespace != placed.Namespace:
		return refused("run %s: its placement %s is not in its namespace", spec.Name, spec.Placement)
	case spec.Title != "":
		return refused("run %s: a hub records no title: leave --title out", spec.Name)
	}
	fields := v1beta1.UpdateRunSpec{PlacementName: placed.Name, StagedUpdateStrategyName: h.key(spec.Strategy.Name).Name, State: v1beta1.StateRun}
	if spec.Index != nil {
		fields.ResourceSnapshotIndex = strconv.Itoa(*spec.Index)
	}
	if spec.Hold {
		fields.State = v1beta1.StateInitialize
	}
	u, err := api.NewRun(api.ScopeOf(k), &fields)
	if err != nil {
		return err
	}
	u.SetName(k.Name)
	if _, err := h.resource(api.RunKind, k.Namespace).Create(ctx, u, metav1.CreateOptions{FieldManager: manager}); err != nil {
		return explain(err, k.Namespace, "editor")
	}
	return h.await(ctx, api.RunKind, spec.Name, func(u *unstructured.Unstructured) (bool, error) {
		s, err := status.RunSummary(u)
		if err == nil && s.State == stages.Failed && s.Clusters == 0 {
			err = refused("run %s: the hub refuses it, delete it and create another one: %s", spec.Name, s.Reason)
		}
		return s.Clusters > 0, err
	})
}

// deleteUnlessBusy deletes the object of a run or a placement. It refuses a run that is running or
// stopping, and a placement with such a run, unless the deletion is forced, as
// [fleet.RunHandle.Delete] does. kubectl deletes them in any case.
func (h *Hub) deleteUnlessBusy(ctx context.Context, kind, name string, force bool) error {
	if force {
		return h.remove(ctx, kind, name)
	}
	u, err := object(ctx, h, kind, name)
	if err != nil {
		return err
	}
	if err := mayBeDeleted(ctx, h, u); err != nil {
		return err
	}
	return h.remove(ctx, kind, name)
}

// mayBeDeleted refuses the deletion of a run that is running or stopping, and of a placement with
// such a run. A repeated deletion changes nothing.
func mayBeDeleted(ctx context.Context, h *Hub, u *unstructured.Unstructured) error {
	if u.GetDeletionTimestamp() != nil {
		return nil
	}
	const remedy = "stop it first, or force the deletion"
	switch strings.TrimPrefix(u.GetKind(), "Cluster") {
	case "StagedUpdateRun":
		if s, err := status.RunSummary(u); err == nil && inProgress(s.State) {
			return fmt.Errorf("run %s: %w", u.GetName(), &stages.RefusedError{Verb: "Delete", State: s.State, Reason: remedy})
		}
	case "ResourcePlacement":
		all, err := h.resource(api.RunKind, u.GetNamespace()).List(ctx, metav1.ListOptions{})
		if err != nil {
			return explain(err, u.GetNamespace(), "viewer")
		}
		for i := range all.Items {
			if r, err := status.RunSummary(&all.Items[i]); err == nil && r.Placement == u.GetName() && inProgress(r.State) {
				return &errdef.Error{
					Op: errdef.Change, Kind: errdef.Placement, Name: h.shown(u.GetNamespace(), u.GetName()), Problem: fmt.Sprintf("has run %s, which is %s", r.Name, r.State),
					Hint: remedy, Err: &stages.RefusedError{Verb: "Delete", State: r.State, Reason: remedy},
				}
			}
		}
	}
	return nil
}

func inProgress(s stages.State) bool { return s == stages.Running || s == stages.Stopping }

// remove deletes an object. The hub still cleans up before the object disappears.
func (h *Hub) remove(ctx context.Context, kind, name string) error {
	k := h.key(name)
	return explain(h.resource(kind, k.Namespace).Delete(ctx, k.Name, metav1.DeleteOptions{}), k.Namespace, "editor")
}
