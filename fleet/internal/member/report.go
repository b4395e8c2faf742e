package member

import (
	"context"
	"errors"
	"fmt"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/health"
	"github.com/slipway-dev/slipway/snapshot"
)

// report returns the proof that the ledger and the objects give after an update or an observation.
func (w *work) report(ctx context.Context) (backend.Proof, error) {
	r := backend.Proof{Sent: w.sent || w.before, Revision: w.ledger.Revision}
	if w.waiting != "" {
		w.note(false, false)
		r.Message, r.Failed = w.waiting, w.doomed
		return r, nil
	}
	if err := w.recordEnds(ctx, w.targets); err != nil {
		return backend.Proof{Sent: r.Sent}, fmt.Errorf("cluster %s: the end of an object was not recorded: %w", w.m.name, err)
	}
	r.Applied = true
	r.Unchanged = !w.sent && !w.before
	for _, t := range w.targets {
		if m := t.stale(w.a.Placement); m != "" {
			w.note(true, false)
			r.Message = m
			return r, nil
		}
	}
	r.Current, r.Healthy = true, true
	for _, t := range w.targets {
		if t.want == nil {
			continue
		}
		h, err := w.healthOf(ctx, t)
		if err != nil {
			return backend.Proof{Sent: r.Sent}, fmt.Errorf("cluster %s: %s: %w", w.m.name, t.id, err)
		}
		take(&r, t, h, w.a.ofCheck)
	}
	w.note(true, r.Healthy)
	return r, nil
}

// take adds the health of an object to the proof. The message of the proof describes the first
// object that failed or, if none failed, the first object that is not ready. The message of a check
// object is reported on success, too.
func take(r *backend.Proof, t *target, h health.Status, ofCheck bool) {
	if !h.Failed && h.Healthy {
		if ofCheck {
			r.Message = guard.Clip(h.Message)
		}
		return
	}
	why := illness(t, h)
	t.suffer(fateUnhealthy{why})
	switch {
	case h.Failed && !r.Failed:
		r.Failed, r.Healthy = true, false
	case !h.Healthy && r.Healthy:
		r.Healthy = false
	default:
		return
	}
	r.Message = why
}

// failingMost bounds the failing objects reported for a cluster.
const failingMost = 100

// note reports the failing objects; applied says whether everything has been applied, proven that
// no object fails.
func (w *work) note(applied, proven bool) {
	if w.a.keeps || w.a.ofCheck {
		return // not of a run: drift reports and check verdicts cover these
	}
	var objects []apply.FailingObject
	if !proven {
		objects = failing(&w.a, w.rev, w.targets, applied)
	}
	w.u.noted(&w.a, proven, objects)
}

// failing returns the objects of the cluster that are not as desired. A desired object that is only
// missing so far is among them if everything has been applied.
func failing(a *Assignment, rev *Revision, targets []*target, applied bool) []apply.FailingObject {
	var all []apply.FailingObject
	if rev != nil {
		for i := range rev.unplaced {
			u := &rev.unplaced[i]
			reason := apply.NotApplied
			if u.Reason != snapshot.NoName {
				reason = apply.FailingReason(u.Reason)
			}
			all = append(all, apply.FailingObject{ID: u.ID, Reason: reason, Message: guard.Clip(u.Problem()), Envelope: &u.Envelope})
		}
	}
	for _, t := range targets {
		if t.want == nil {
			continue
		}
		if o, bad := t.failure(a, applied); bad {
			all = append(all, o)
		}
		if len(all) >= failingMost {
			break
		}
	}
	return all
}

// failure returns the object as a failing object, and whether it is one: see fate.
func (t *target) failure(a *Assignment, applied bool) (apply.FailingObject, bool) {
	generation := int64(0)
	if t.live != nil {
		generation = t.live.GetGeneration()
	}
	bad := func(reason apply.FailingReason, message string) (apply.FailingObject, bool) {
		return apply.FailingObject{ID: t.id, Reason: reason, Generation: generation, Message: guard.Clip(message)}, true
	}
	problem, held := t.problem(), t.heldBack()
	switch {
	case errors.Is(problem, backend.ErrNoSuchKind):
		return bad(apply.NoSuchKind, problem.Error())
	case problem != nil:
		return bad(apply.NotApplied, problem.Error())
	case held != nil && owned(t, a.Placement):
		return bad(apply.HeldDrifted, held.Error())
	case held != nil:
		return bad(apply.HeldForeign, held.Error())
	}
	if err := t.refusal(a); err != nil {
		return bad(apply.HeldForeign, err.Error())
	}
	if !applied {
		return apply.FailingObject{}, false
	}
	if stale := t.stale(a.Placement); stale != "" {
		return bad(apply.NotApplied, stale)
	}
	if sick, ok := t.fate.(fateUnhealthy); ok {
		return apply.FailingObject{ID: t.id, Reason: apply.NotHealthy, Generation: generation, Message: sick.why}, true
	}
	return apply.FailingObject{}, false
}
