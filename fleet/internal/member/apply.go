package member

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/snapshot"
)

// applyAll applies the desired objects that are missing or differ, phase by phase. An object that
// the member refuses is a problem, and does not stop the others. If an object has to be waited for
// or failed, later phases wait as well. An object in an envelope that no cluster gets is a problem
// like a refused object, so that the cluster does not complete.
func (w *work) applyAll(ctx context.Context) error {
	w.problems = append(w.problems, w.rev.unplacedProblems()...)
	w.definitions = definitionsOf(w.targets)
	w.servers = &servers{
		targets: w.targets, definitions: w.definitions, apis: apiServicesOf(w.targets), earlier: map[snapshot.Phase]*healthOf{},
		probe: w.healthOf,
	}
	var phase snapshot.Phase
	for _, t := range w.targets {
		if w.waiting != "" && t.phase > phase {
			return nil
		}
		phase = t.phase
		if t.want == nil {
			continue
		}
		if t.unread() {
			w.stumble(t)
			continue
		}
		err := w.applyDefined(ctx, t)
		switch {
		case err == nil:
			w.served = w.served || t.problem() == nil && t.heldBack() == nil
		case errors.Is(err, backend.ErrNotFound):
			w.refused(t, &MissingNamespaceError{fmt.Errorf("%s: namespace %s is missing on the cluster: select it too, or create it there: %v: %w", t.id, t.id.Namespace, err, backend.ErrPermanent)})
		case errors.Is(err, backend.ErrPermanent):
			w.refused(t, t.naming(err))
		default:
			if err := w.ofOne(ctx, err); err != nil {
				return err
			}
			w.failed(t, failedCall{err: err})
			w.stumble(t)
		}
	}
	return nil
}

// naming returns an error that names the object. Statuses keep only the beginning of an error, so
// its reason must not be behind a repeated name.
func (t *target) naming(err error) error {
	if strings.Contains(err.Error(), t.id.String()) {
		return err
	}
	return fmt.Errorf("%s: %w", t.id, err)
}

// applyDefined applies one object if its kind is established, and if the server that judges or
// serves the object is ready.
func (w *work) applyDefined(ctx context.Context, t *target) error {
	if ok, err := w.defined(ctx, t); !ok {
		return err
	}
	if !w.servers.need(t) || t.heldBack() != nil || t.ended != "" || t.live != nil && t.asDesired(&w.a) {
		return w.apply(ctx, t)
	}
	before, err := w.servers.waitFor(ctx, t)
	if err != nil {
		return err
	}
	if before != nil {
		w.doomed = w.doomed || before.failed
		w.await(t, fmt.Sprintf("%s waits until everything that is applied before it is healthy: %s", t.id, before.why))
		return nil
	}
	return w.apply(ctx, t)
}

// apply applies one object, and decides again after a conflict.
func (w *work) apply(ctx context.Context, t *target) error {
	for range rounds {
		switch {
		case t.heldBack() != nil, t.ended != "":
			return t.unmarked
		case t.live != nil && isTerminating(t.live):
			w.await(t, fmt.Sprintf("%s is being deleted; it is applied again once it is gone", t.id))
			return nil
		case t.live != nil && t.asDesired(&w.a):
			// Without a mark nothing has changed its resourceVersion.
			return t.unmarked
		}
		if err := t.refusal(&w.a); err != nil {
			return err
		}
		if t.live == nil {
			if err := w.recheck(ctx); err != nil {
				return err
			}
		}
		live, err := w.writeTarget(ctx, t)
		if err == nil {
			t.fate, t.live = fateApplied{t.live}, live
			return w.recordBegun(ctx, t, w.openLedgerEntries)
		}
		if !errors.Is(err, backend.ErrConflict) {
			return err
		}
		if err := w.readAgain(ctx, t); err != nil {
			return err
		}
		w.holdBack(ctx, t)
	}
	return w.busy(t)
}

// writeTarget applies an object as the strategy demands.
func (s *session) writeTarget(ctx context.Context, t *target) (live *unstructured.Unstructured, err error) {
	o := s.applyOptions(t)
	live, t.dropped, err = applyAs(&s.a.Strategy, t.desired(&s.a), func(obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return s.write(ctx, obj, o)
	})
	return live, err
}

// alteredOf returns a text for people about the objects that were applied without some of their
// fields, or "" if there are none. It names only the first fields of the first objects, because a
// run stores no longer text.
func alteredOf(targets []*target) string {
	const mostObjects, mostParts = 2, 2
	var texts []string
	for _, t := range targets {
		if len(t.dropped) == 0 {
			continue
		}
		parts := slices.Sorted(slices.Values(t.dropped))
		if more := len(parts) - mostParts; more > 0 {
			parts = append(parts[:mostParts], fmt.Sprintf("and %d more", more))
		}
		texts = append(texts, guard.Clip(fmt.Sprintf("%s: %s", t.id, strings.Join(parts, " "))))
	}
	if more := len(texts) - mostObjects; more > 0 {
		texts = append(texts[:mostObjects], fmt.Sprintf("and %d more objects", more))
	}
	if len(texts) == 0 {
		return ""
	}
	return "the API server does not take, so left out: " + strings.Join(texts, "; ")
}

// applyOptions returns the options for applying an object. If kubectl, Helm or Terraform co-own
// fields of an earlier version, the placement first becomes their only owner, so that the apply
// removes fields that the hub dropped. This does not happen if the strategy respects other owners.
func (s *session) applyOptions(t *target) backend.ApplyOptions {
	o := backend.ApplyOptions{
		Manager: manager(s.a.Placement), Precondition: t.precondition(), RefuseConflicts: s.a.Strategy.RefuseConflicts,
	}
	if !o.RefuseConflicts {
		o.Owners = drift.TakeOver(t.live, o.Manager, s.a.Strategy.Ignore)
	}
	return o
}
