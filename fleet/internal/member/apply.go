package member

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/lenient"
	"github.com/slipway-dev/slipway/health"
	"github.com/slipway-dev/slipway/snapshot"
)

// applyAll applies what is to be there and is not, phase by phase. An object that
// the member refuses is a problem, and the others go on; where something has to
// be waited for, or an object failed, later phases wait, too. An object of an
// envelope that no cluster gets is a problem as one that is refused, so that the cluster does not complete.
func (w *work) applyAll(ctx context.Context) error {
	w.problems = append(w.problems, w.rev.leftOut()...)
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
		if t.unread {
			w.stumble(t)
			continue
		}
		err := w.applyDefined(ctx, t)
		switch {
		case err == nil:
			w.served = w.served || t.problem == nil && t.held == nil
		case errors.Is(err, backend.ErrNotFound):
			w.refused(t, &MissingNamespaceError{fmt.Errorf("%s: namespace %s is missing on the cluster: select it too, or create it there: %v: %w", t.id, t.id.Namespace, err, backend.ErrPermanent)})
		case errors.Is(err, backend.ErrPermanent):
			w.refused(t, fmt.Errorf("%s: %w", t.id, err))
		default:
			if err := w.ofOne(ctx, err); err != nil {
				return err
			}
			w.failed(t, err)
			w.stumble(t)
		}
	}
	return nil
}

// applyDefined applies one object if its kind is there, and the server that judges or serves it.
func (w *work) applyDefined(ctx context.Context, t *target) error {
	if ok, err := w.defined(ctx, t); !ok {
		return err
	}
	if !w.servers.need(t) || t.held != nil || t.ended != "" || t.live != nil && t.asDesired(&w.a) {
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

// apply applies one object.
func (w *work) apply(ctx context.Context, t *target) error {
	for range rounds {
		switch {
		case t.held != nil, t.ended != "":
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
			t.applied, t.before, t.live = true, t.live, live
			return w.recordBegun(ctx, t, w.intended)
		}
		if !errors.Is(err, backend.ErrConflict) {
			return err
		}
		if err := w.lookAgain(ctx, t); err != nil {
			return err
		}
		w.holdBack(ctx, t)
	}
	return w.busy(t)
}

// servers decides which objects of an update wait for a server: an admission object refuses others, and an object of a
// served kind is refused itself, while its server is still starting. They wait until all objects of earlier phases are
// healthy, not only the server: an admission object does not say what its server consists of.
type servers struct {
	targets     []*target
	definitions map[kind]*target
	apis        []*target // the APIServices
	probe       func(context.Context, *target) (health.Status, error)
	// earlier is the health of the objects before a phase, once objects of it wait.
	earlier map[snapshot.Phase]*healthOf
}

// healthOf is the health of the objects that are applied before a phase.
type healthOf struct {
	sick   []*target // not healthy, or not applied
	failed bool      // waiting will not make one of them healthy
	why    string    // the first that failed, or else the first of sick
}

// waitFor returns what an object that needs a server has to wait for, nil if for nothing.
func (s *servers) waitFor(ctx context.Context, t *target) (*healthOf, error) {
	before, err := s.healthBefore(ctx, t.phase)
	if err != nil || len(before.sick) == 0 || blocks(t.live, before.sick) {
		return nil, err
	}
	return before, nil
}

// healthBefore returns the health of the objects that are applied before a phase. It is probed once in an update.
func (s *servers) healthBefore(ctx context.Context, phase snapshot.Phase) (*healthOf, error) {
	if known := s.earlier[phase]; known != nil {
		return known, nil
	}
	out := &healthOf{}
	for _, t := range s.targets {
		if t.want == nil || t.phase >= phase || t.held != nil {
			continue
		}
		h := health.Status{Message: "it is not applied"}
		if (t.live != nil || t.ended != "") && t.problem == nil {
			var err error
			if h, err = s.probe(ctx, t); err != nil {
				return nil, fmt.Errorf("health of %s: %w", t.id, err)
			}
		}
		if h.Healthy && !h.Failed {
			continue
		}
		if out.why == "" || h.Failed && !out.failed {
			out.why = illness(t, h)
		}
		out.sick, out.failed = append(out.sick, t), out.failed || h.Failed
	}
	s.earlier[phase] = out
	return out, nil
}

// unblock gives up the admission objects that are to go if others wait for a server which they keep from starting.
// Otherwise they go after everything that is to be there has come.
func (w *work) unblock(ctx context.Context) error {
	if w.servers == nil || w.servers.earlier[snapshot.Admission] == nil {
		return nil
	}
	before := w.servers.earlier[snapshot.Admission]
	for _, t := range w.targets {
		if t.want != nil || t.phase != snapshot.Admission || w.stays(t) || !blocks(t.live, before.sick) {
			continue
		}
		if _, err := w.leaves(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// blocks reports whether a condition of a sick object says that the admission object live, which may be nil, refused
// something: a ReplicaFailure of a Deployment quotes the API server's error, which has the name.
func blocks(live *unstructured.Unstructured, sick []*target) bool {
	if live == nil {
		return false
	}
	var marks []string
	switch live.GetKind() {
	case "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy":
		marks = []string{"Policy '" + live.GetName() + "'"}
	case "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding":
		marks = []string{"binding '" + live.GetName() + "'"}
	}
	hooks, _ := live.Object["webhooks"].([]any)
	for _, h := range hooks {
		h, _ := h.(map[string]any)
		if name, _ := h["name"].(string); name != "" {
			marks = append(marks, fmt.Sprintf("webhook %q", name))
		}
	}
	for _, t := range sick {
		if t.live == nil {
			continue
		}
		for _, c := range conditionsOf(t.live) {
			message, _ := c["message"].(string)
			if slices.ContainsFunc(marks, func(mark string) bool { return strings.Contains(message, mark) }) {
				return true
			}
		}
	}
	return false
}

// writeTarget applies an object as the strategy says.
func (s *session) writeTarget(ctx context.Context, t *target) (live *unstructured.Unstructured, err error) {
	o := s.applyOptions(t)
	live, t.left, err = applyAs(&s.a.Strategy, t.desired(&s.a), func(obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return s.write(ctx, obj, o)
	})
	return live, err
}

// applyAs applies an object, or has a dry run of that. With apply.ClientSide it leaves out what kubectl would, and returns
// the paths of that.
func applyAs(s *apply.Strategy, obj *unstructured.Unstructured, write func(*unstructured.Unstructured) (*unstructured.Unstructured, error)) (live *unstructured.Unstructured, left []string, err error) {
	if s.Type != apply.ClientSide {
		live, err = write(obj)
		return live, nil, err
	}
	return lenient.Apply(obj, write)
}

// alteredOf says which objects were applied without a part of them, for people; empty for none. Of each it names the first
// parts only, because a run keeps no longer text.
func alteredOf(targets []*target) string {
	const mostObjects, mostParts = 2, 2
	var texts []string
	for _, t := range targets {
		if len(t.left) == 0 {
			continue
		}
		parts := slices.Sorted(slices.Values(t.left))
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

// applyOptions says how an object is applied. Fields of an earlier version that kubectl, Helm or Terraform own too become
// the placement's alone first, so that those which the hub dropped go; not if the strategy respects other owners.
func (s *session) applyOptions(t *target) backend.ApplyOptions {
	o := backend.ApplyOptions{
		Manager: manager(s.a.Placement), Precondition: t.asLooked(), RefuseConflicts: s.a.Strategy.RefuseConflicts,
	}
	if !o.RefuseConflicts {
		o.Owners = drift.TakeOver(t.live, o.Manager, s.a.Strategy.Ignore)
	}
	return o
}
