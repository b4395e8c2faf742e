package fleet

import (
	"cmp"
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet/internal/planning"
	"github.com/slipway-dev/slipway/fleet/internal/problems"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// RollbackOptions say how a run is rolled back.
type RollbackOptions struct {
	// Name is the name of the rollback run; empty means the first name by [Config].RollbackName
	// that no run has.
	Name string `json:"name,omitempty"`
	// By is the identity of the caller, as the host authenticated it. By and Reason are recorded in
	// the events.
	By     approval.Identity `json:"by,omitzero"`
	Reason string            `json:"reason,omitempty"`
}

// Rollback is the state of the rollback of a run.
type Rollback struct {
	// Run is the run that is rolled back. By is the name of the current or future rollback run;
	// empty if no rollback was requested, or if it was refused.
	Run string `json:"run"`
	By  string `json:"by,omitempty"`
	// Pending reports whether a rollback was requested and the run By is not recorded yet.
	Pending bool `json:"pending,omitempty"`
	// State is the state of the run By; empty while the rollback is Pending, and after By was
	// deleted. The rollback of an ended run is over if it is not Pending, and State is empty or the
	// state of a run that has ended.
	State stages.State `json:"state,omitempty"`
	// Refused is the reason why a requested rollback is not done.
	Refused string `json:"refused,omitempty"`
	// Since is when the rollback was requested; set while it is Pending.
	Since time.Time `json:"since,omitzero"`
}

// Rollback rolls back a run by a run of its own, and returns the name of that rollback run. Every
// cluster that the run may have changed returns to its previous state: its own earlier snapshot
// with its own overrides at that time. See [step.RollBack] for the order, the caps and the
// treatment of clusters that had nothing; the strategy of the run must have a Rollback. Objects
// that Config.Rules and Config.Restrictions forbid now are not restored: the clusters that had such
// an object stay unchanged, and the plan names them with the object and the reason. The rollback
// run supersedes the runs that wait for the placement.
//
// If the run has not ended, a [stages.RequestRollback] command ends it first; it is not rolled back
// if it is superseded or aborted before that. Among ended runs, only the last run that changed
// clusters can be rolled back. If its rollback did not finish for every cluster, it can be repeated
// for the others. While another run has the placement, Rollback fails and names that run.
//
// Rollback returns once the request is recorded; engines in [Engine.Start] carry it out, and
// [RunHandle.RollbackStatus] reports the result. A repeated call during the rollback changes
// nothing.
func (h RunHandle) Rollback(ctx context.Context, o RollbackOptions) (string, error) {
	if err := problems.About("rollback of run "+h.name, o.problems()); err != nil {
		return "", err
	}
	s, err := h.e.state.Status(ctx, h.name)
	if err != nil {
		return "", err
	}
	if u := s.Run.Form(runstate.Key{}).RollbackRequest; u != nil {
		if by, err := h.RollbackStatus(ctx); err != nil || by.Pending || by.By == "" && by.Refused == "" {
			return cmp.Or(by.By, u.Run, h.e.state.RollbackNames.Of(h.name, s.Title, 1)), err
		}
	}
	name := o.Name
	if name == "" {
		name, err = h.e.state.RollbackNames.Free(ctx, h.name, s.Title)
	} else {
		err = h.e.state.NameFree(ctx, name)
	}
	if err != nil {
		return "", err
	}
	if s.Run.Final(s.Plan) {
		return h.e.admitter.RequestRollback(ctx, &s, stages.RollbackRequest{Cause: stages.OnCommand, Run: name, By: o.By, Message: o.Reason})
	}
	return h.requestRollback(ctx, stages.Command{Verb: stages.RequestRollback, By: o.By, Message: o.Reason, Name: name})
}

// requestRollback stores the request to roll back a run that has not ended, and returns the name of
// the rollback run. It stores nothing if such a request is stored already.
func (h RunHandle) requestRollback(ctx context.Context, c stages.Command) (name string, err error) {
	unlock, err := h.e.commands.Lock(ctx, h.name)
	if err != nil {
		return "", err
	}
	defer unlock()
	_, recorded, err := h.recorded(ctx)
	if err != nil {
		return "", err
	}
	if i := slices.IndexFunc(recorded, asksForRollback); i >= 0 {
		return recorded[i].Name, nil
	}
	uid, err := h.accept(ctx, &c)
	if err != nil {
		return "", err
	}
	return c.Name, h.e.commands.Send(ctx, uid, c)
}

func asksForRollback(c stages.Command) bool { return c.Verb == stages.RequestRollback }

func (o *RollbackOptions) problems() field.ErrorList {
	errs := sizeProblems(stages.Command{Message: o.Reason, By: o.By})
	if o.Name != "" {
		errs = append(errs, problems.Name(field.NewPath("name"), o.Name)...)
	}
	return errs
}

// PreviewRollback returns the plan that would roll back the changes that a run has made so far.
// Nothing is written, and nothing starts. It returns the errors with which [RunHandle.Rollback] or
// the rollback run would be refused. While the run has not ended, the plan may still grow.
func (h RunHandle) PreviewRollback(ctx context.Context) (*stages.Plan, error) {
	s, err := h.e.state.Status(ctx, h.name)
	if err != nil {
		return nil, err
	}
	switch {
	case s.Run.Form(runstate.Key{}).RollbackRequest != nil: // Rollback changes nothing
	case s.Run.Final(s.Plan):
		err = h.e.admitter.CheckRollback(ctx, &s)
	default:
		var recorded []stages.Command
		if _, recorded, err = h.recorded(ctx); err == nil && !slices.ContainsFunc(recorded, asksForRollback) {
			_, err = h.accept(ctx, &stages.Command{Verb: stages.RequestRollback})
		}
	}
	if err != nil {
		return nil, err
	}
	var d *planning.Draft
	err = h.e.state.WithPlacement(ctx, s.Run.Placement, func(rec *record.Placement) error {
		base := rec.Base
		if !s.Run.IsEnded() && s.Run.Started != 0 { // until then the bindings have the previous revisions
			base = rec.BaseOf(s.Run.UID, s.Run.Name, rec.Bindings, rec.InUse)
		}
		d, err = h.e.planner.DraftRollback(ctx, rec, base, &s)
		return err
	})
	if err != nil {
		return nil, planning.NotRolledBack(h.name, err)
	}
	return d.Plan, nil
}

// RollbackStatus returns the state of the rollback of the run. If none was requested, only Run is
// set.
func (h RunHandle) RollbackStatus(ctx context.Context) (Rollback, error) {
	rr, _, err := h.e.state.Run(ctx, h.name)
	if err != nil {
		return Rollback{}, err
	}
	rec, _, err := h.e.state.Placement(ctx, rr.Run.Placement)
	if err != nil {
		return Rollback{}, err
	}
	out := rollbackIn(rec, rr)
	if out.Pending || out.By == "" {
		return out, nil
	}
	by, err := rollbackRun(ctx, h.e.state, rr.Run.UID, out.By)
	if by != nil {
		out.State = by.Run.State
	}
	return out, err
}

// rollbackIn returns the state of the rollback of a run from its placement's record, without State.
// The placement of a run that has just failed records the requested rollback together with the end
// of the run; until then it is Pending.
func rollbackIn(rec *record.Placement, rr *record.Run) Rollback {
	out := Rollback{Run: rr.Run.Name}
	known, is := rec.Run(rr.Run.UID)
	switch b := rec.Rollback; {
	case b != nil && b.Of == rr.Run.UID:
		out.By, out.Pending, out.Since = b.Run, true, b.Since.Time()
	case is && known.RolledBackBy+known.RollbackRefused != "":
		out.By, out.Refused = known.RolledBackBy, known.RollbackRefused
	case is && rr.Run.State == stages.Failed && rr.Run.Form(runstate.Key{}).RollbackRequest != nil:
		out.By, out.Pending, out.Since = rr.Run.Form(runstate.Key{}).RollbackRequest.Run, true, rr.Run.Ended.Time()
	}
	return out
}

// rollbackRun returns the record of the rollback run with the name by, or nil if it was deleted.
// uid is the UID of the run that it rolls back.
func rollbackRun(ctx context.Context, st *state.State, uid, by string) (*record.Run, error) {
	rr, _, err := st.Run(ctx, by)
	switch {
	case state.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case rr.RollbackOf != uid: // another run has the name
		return nil, nil
	}
	return rr, nil
}

// explain returns the end of an explanation: the name of the rollback run, or why there is none;
// empty if neither is known.
func (r *Rollback) explain() string {
	switch {
	case r.Refused != "":
		return "; it is not, because " + r.Refused
	case r.By != "":
		return "; run " + r.By + " does"
	default:
		return ""
	}
}

// RollbackName returns the name of the nth rollback, from 1, of a run: the name of the run with the
// suffix "-rollback", and from the second on also the number. A name longer than 63 characters is
// shortened: the name of the run is cut, and 8 characters of its digest distinguish it from other
// names with the same beginning.
func RollbackName(run string, n int) string { return state.DefaultRollbackName(run, n) }
