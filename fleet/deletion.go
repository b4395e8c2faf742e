package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/planning"
	"github.com/slipway-dev/slipway/fleet/internal/problems"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// DeleteOptions say how a placement is deleted.
type DeleteOptions struct {
	// By is the name of the caller, for the events.
	By string `json:"by,omitempty"`
	// Deadline is how long the deletion waits for a cluster that cannot be cleaned before it skips
	// the cluster, from 0 to 365 days; 0 means 5 min.
	Deadline metav1.Duration `json:"deadline,omitzero"`
	// MaxConcurrency is the maximum number of clusters that are cleaned at the same time, a number
	// of at least 1 or a percentage; nil means 50.
	MaxConcurrency *intstr.IntOrString `json:"maxConcurrency,omitempty"`
	// Policy replaces the placement's DeletePolicy; empty keeps that policy. Abandon leaves the
	// objects on the clusters, and removes the marks that tie them to the placement.
	Policy placement.DeletePolicy `json:"policy,omitempty"`
	// Owner, if not nil, must equal the owner of the placement, or else the error matches
	// backend.ErrConflict. The check and the record of the deletion are one transaction.
	Owner *string `json:"owner,omitempty"`
	// Force also deletes a placement with a run in progress, which is superseded and deleted with
	// its events. Without Force, a run that is Running or Stopping is a reason to refuse, as in
	// [RunHandle.Delete].
	Force bool `json:"force,omitempty"`
}

// Deletion is the progress or the result of the deletion of a placement.
type Deletion struct {
	Placement string `json:"placement"`
	// UID distinguishes the placement from others of the same name.
	UID string `json:"uid"`
	// Owner is the owner of the placement.
	Owner string `json:"owner,omitempty"`
	By    string `json:"by,omitempty"`
	// Orphan reports whether the objects are left on the clusters, by the policy Abandon.
	Orphan bool `json:"orphan,omitempty"`
	// Run is the name of the run that cleans the clusters. It is an ordinary run:
	// [RunHandle.Status] and [RunHandle.History] report its progress, and a command may skip a
	// cluster, stop the run, or abort it, which leaves the remaining clusters uncleaned. It is
	// deleted when the deletion has ended. It is empty if the placement never had a snapshot.
	Run   string    `json:"run,omitempty"`
	Since time.Time `json:"since"`
	// Ended is when all records were deleted; zero while anything of the placement is stored. Until
	// then, [PlacementHandle.ForgetDeletion] is refused.
	Ended time.Time `json:"ended,omitzero"`
	// Clusters is the number of clusters that may have had objects of the placement. Done is the
	// number of these clusters that are known to have none left.
	Clusters int `json:"clusters"`
	Done     int `json:"done"`
	// SkippedClusters are the skipped clusters, ascending by name, at most 500. Skipped is the
	// number of all skipped clusters.
	SkippedClusters []UncleanedCluster `json:"skippedClusters,omitempty"`
	Skipped         int                `json:"skipped"`
	// Released are the clusters on which objects were left for another reason than Orphan, with the
	// objects and the reason, at most 500. It is empty until the clusters are done.
	Released []UncleanedCluster `json:"released,omitempty"`
}

// UncleanedCluster is a cluster that may still have objects of a placement.
type UncleanedCluster struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Delete deletes the placement: the objects that it placed, and all its records. It returns once
// the deletion is recorded, and cannot be undone. Any engine in [Engine.Start] carries it out, and
// [PlacementHandle.Deletion] reports the progress. A repeated call changes nothing, whatever the
// options. The error matches errdef.ErrNotFound if there is neither a placement nor a deletion of
// that name.
//
// If a run of the placement is Running or Stopping, the error is a [*stages.RefusedError] that
// names the run, and nothing is deleted: stop or abort it first, or set Force.
//
// If the placement never had a snapshot, no cluster has an object of it. Delete then deletes the
// records itself, and needs no engine in Start and no cluster. If that fails, a repeated call or an
// engine continues it.
//
// From then on the placement accepts no run, no snapshot, no selection and no change: the error
// matches errdef.ErrDeleting. Its runs are superseded; updates under way may still arrive. Then the
// engine cleans every cluster that may hold objects, like a cluster that left the placement. It
// deletes the objects that the placement created, namespaces included. It deletes or releases
// adopted objects as the placement's DeletePolicy says, and releases objects that another placement
// applies. It deletes the ledger once no objects are left. It waits for objects with a finalizer,
// for namespaces with a finalizer of their own, and for namespaces whose controller cannot delete a
// part of their content. A cluster is skipped if it cannot be reached or cleaned within the
// deadline, or if the inventory does not have it; the reason names the objects that are left. At
// the end all records are deleted except one. It says how the deletion ended, and is kept until the
// name is declared again or [PlacementHandle.ForgetDeletion] is called.
//
// A placement that is declared later under the same name is a new placement. Its epochs continue
// after the last epoch of the old one, so that a remaining ledger does not refuse it, and the
// members still refuse an engine that was paused during the deletion.
func (h PlacementHandle) Delete(ctx context.Context, o DeleteOptions) error {
	if err := problems.About("deletion of placement "+h.name, o.problems()); err != nil {
		return err
	}
	rec, _, err := h.e.state.Advance(ctx, h.name, &state.Transition{Input: func(rec *record.Placement) (lifecycle.Input, error) {
		if err := o.checkOwner(h.name, rec.Placement.Owner); err != nil {
			return nil, err
		}
		if err := h.idle(ctx, rec); err != nil && !o.Force && rec.Deleting == nil {
			return nil, err
		}
		return lifecycle.DeleteRequested{Deletion: *o.record(rec, h.e.state.Now())}, nil
	}, Also: func(rec *record.Placement) {
		rec.Placement.DeletePolicy = cmp.Or(o.Policy, rec.Placement.DeletePolicy)
	}})
	switch {
	case err == nil && rec.Deleting.Run == "":
		for {
			if _, err = h.e.admitter.Continue(ctx, h.name); !errors.Is(err, backend.ErrConflict) {
				return err
			}
		}
	case !state.IsNotFound(err):
		return err
	}
	d, _, derr := h.e.state.DeletedAt(ctx, h.name)
	if derr != nil || d.Report != nil && o.checkOwner(h.name, d.Report.Owner) == nil {
		return derr // it was deleted before
	}
	return err
}

// idle returns an error if a run of the placement is in progress. A run with a damaged record does
// not prevent a deletion.
func (h PlacementHandle) idle(ctx context.Context, rec *record.Placement) error {
	for i := range rec.Runs {
		if rec.Runs[i].Ended != "" {
			continue
		}
		name := rec.Runs[i].Name
		rr, _, err := h.e.state.Run(ctx, name)
		switch {
		case state.IsNotFound(err), state.IsLasting(err):
		case err != nil:
			return err
		case rr.Run.State == stages.Running, rr.Run.State == stages.Stopping:
			refused := &stages.RefusedError{Verb: "Delete", State: rr.Run.State, Reason: "stop or abort it first, or force the deletion"}
			return &errdef.Error{
				Op: errdef.Change, Kind: errdef.Placement, Name: h.name, Problem: fmt.Sprintf("has run %s, which is %s", name, rr.Run.State), Hint: refused.Reason, Err: refused,
			}
		}
	}
	return nil
}

func (o *DeleteOptions) checkOwner(name, have string) error {
	if o.Owner == nil {
		return nil
	}
	return checkOwner(name, have, *o.Owner)
}

func (o *DeleteOptions) problems() field.ErrorList {
	errs := problems.Nested(nil, planning.Cleaning(o.record(&record.Placement{}, time.Time{})).Validate())
	errs = problems.OneOf(errs, field.NewPath("policy"), o.Policy, placement.DeleteCreated, placement.DeleteAll, placement.Abandon)
	if len(o.By) > mostName {
		errs = append(errs, field.TooLong(field.NewPath("by"), "", mostName))
	}
	return errs
}

// cleanedAtOnce is the default maximum number of clusters that are cleaned at the same time.
const cleanedAtOnce = 50

func (o *DeleteOptions) record(rec *record.Placement, now time.Time) *lifecycle.Deletion {
	d := &lifecycle.Deletion{
		By: o.By, Since: stages.At(now), Deadline: o.Deadline, MaxConcurrency: o.MaxConcurrency,
		End: lifecycle.DeleteObjects, Run: "deletion-" + rec.UID,
	}
	if cmp.Or(o.Policy, rec.Placement.DeletePolicy) == placement.Abandon {
		d.End = lifecycle.OrphanObjects
	}
	if d.MaxConcurrency == nil {
		limit := intstr.FromInt32(cleanedAtOnce)
		d.MaxConcurrency = &limit
	}
	return d
}

// Deletion returns the progress of the deletion of a placement. It remains available after the end,
// until the name is declared again or the deletion is forgotten. The error matches
// backend.ErrNotFound if there is no deletion.
func (h PlacementHandle) Deletion(ctx context.Context) (Deletion, error) {
	rec, _, err := h.e.state.Placement(ctx, h.name)
	if err != nil && !state.IsNotFound(err) {
		return Deletion{}, err
	}
	d, _, derr := h.e.state.DeletedAt(ctx, h.name)
	switch {
	case derr != nil:
		return Deletion{}, derr
	case d.Report != nil && (rec == nil || rec.Deleting != nil && rec.UID == d.UID):
		out := deletionOf(h.name, &d)
		if rec != nil { // the record of the placement goes last
			out.Ended = time.Time{}
		}
		return out, nil
	case rec == nil || rec.Deleting == nil:
		return Deletion{}, errdef.NotFound(errdef.Deletion, h.name, "the placement is not being deleted, and was not")
	}
	report, err := h.e.admitter.Report(ctx, rec)
	if err != nil {
		return Deletion{}, err
	}
	d = record.Deleted{UID: rec.UID, Report: report}
	return deletionOf(h.name, &d), nil
}

// deletionOf returns the progress or the result of a deletion from its record.
func deletionOf(name string, d *record.Deleted) Deletion {
	r := d.Report
	out := Deletion{
		Placement: name, UID: d.UID, Owner: r.Owner, By: r.By, Orphan: r.End == lifecycle.OrphanObjects, Run: r.Run,
		Since: r.Since.Time(), Ended: r.Ended.Time(), Clusters: r.Clusters, Done: r.Done, Skipped: r.Skipped,
	}
	for _, skipped := range r.SkippedClusters {
		out.SkippedClusters = append(out.SkippedClusters, UncleanedCluster(skipped))
	}
	for _, released := range r.Released {
		out.Released = append(out.Released, UncleanedCluster(released))
	}
	return out
}

// ForgetDeletion drops the result of a deletion. It fails while the deletion is in progress, and
// returns nil if there is no result. The store keeps the name with the last epoch for good.
func (h PlacementHandle) ForgetDeletion(ctx context.Context) error {
	for {
		rec, _, err := h.e.state.Placement(ctx, h.name)
		if err == nil {
			return state.Open(rec)
		}
		if !state.IsNotFound(err) {
			return err
		}
		d, rev, err := h.e.state.DeletedAt(ctx, h.name)
		if err != nil || d.Report == nil {
			return err
		}
		d = record.Deleted{Format: record.Format, UID: d.UID, Epoch: d.Epoch}
		_, err = h.e.store.Put(ctx, record.DeletedKey(h.name), record.Encode(d), rev)
		if !errors.Is(err, backend.ErrConflict) {
			return err
		}
	}
}
