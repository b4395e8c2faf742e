package requests

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/status"
	"github.com/slipway-dev/slipway/stages"
)

// gateName is an approval of a run: after stage prod of run web its request is web-prod, before it web-before-prod. So
// a request of run web before stage prod and one of run web-before after it have one name.
type gateName struct {
	Stage string
	When  approval.When
}

func (g gateName) String() string { return status.Side(g.When) + " stage " + g.Stage }

// gatesOf are the approvals of the stages of a strategy.
func gatesOf(s *stages.Strategy) (out []gateName) {
	for i := range s.Stages {
		st := &s.Stages[i]
		for _, side := range []struct {
			when  approval.When
			tasks []stages.Task
		}{{approval.Before, st.Before}, {approval.After, st.After}} {
			for _, t := range side.tasks {
				if t.Type == stages.Approval {
					out = append(out, gateName{st.Name, side.when})
				}
			}
		}
	}
	return out
}

// gatesOfPlan are the approvals of the stages of a plan, which may be one that takes another one back.
func gatesOfPlan(p *stages.Plan) (out []gateName) {
	for i := range p.Stages {
		for _, g := range p.Stages[i].Gates {
			if g.Type == stages.Approval {
				out = append(out, gateName{p.Stages[i].Name, g.When})
			}
		}
	}
	return out
}

// RunsOfRequest yields every name that a run could have whose request is called so.
func RunsOfRequest(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i, c := range name {
			if c == '-' && i > 0 && !yield(name[:i]) {
				return
			}
		}
	}
}

// sameRequest finds a gate of a run whose request has that name.
func sameRequest(name, run string, gates []gateName) (gateName, bool) {
	for _, g := range gates {
		if approval.RequestName(run, g.Stage, g.When) == name {
			return g, true
		}
	}
	return gateName{}, false
}

// NameProblem says which request of a run that is to begin would have the name of one of another run, nil for none.
// Of two runs that have not begun the older one is in the way of the other.
func (r *Requests) NameProblem(ctx context.Context, k api.Key, obj *unstructured.Unstructured, strategy *stages.Strategy) error {
	for _, g := range gatesOf(strategy) {
		name := approval.RequestName(k.Name, g.Stage, g.When)
		for run := range RunsOfRequest(name) {
			other := api.Key{Namespace: k.Namespace, Name: run}
			if other == k {
				continue
			}
			theirs, why, err := r.claims(ctx, other, obj, name)
			if err != nil {
				return err
			}
			if why != "" {
				return api.Refused(fmt.Errorf("its request %s would have the name %s of that of updateRun %s %s, %s: choose another name for the updateRun, or create it again when updateRun %s is deleted",
					g, name, run, theirs, why, run))
			}
		}
	}
	return nil
}

// Reserve keeps the names of the requests of a run that is about to begin from other runs that are, or says which one has
// one of them. What it returns gives them free: the run is recorded by then, or does not begin.
func (r *Requests) Reserve(ctx context.Context, k api.Key, obj *unstructured.Unstructured, strategy *stages.Strategy) (func(), error) {
	r.beginning.Lock()
	defer r.beginning.Unlock()
	if err := r.NameProblem(ctx, k, obj, strategy); err != nil {
		return nil, err
	}
	if r.gatesOfBeginning == nil {
		r.gatesOfBeginning = map[api.Key][]gateName{}
	}
	r.gatesOfBeginning[k] = gatesOf(strategy)
	return func() {
		r.beginning.Lock()
		defer r.beginning.Unlock()
		delete(r.gatesOfBeginning, k)
	}, nil
}

// claims returns the gate of another run whose request has or will have a name, and why that is in the way of a run
// that is to begin, "" where it is not.
func (r *Requests) claims(ctx context.Context, other api.Key, obj *unstructured.Unstructured, name string) (gateName, string, error) {
	run := r.Cached(api.ScopeOf(other).GVR(api.RunKind), other)
	if run == nil {
		return gateName{}, "", nil
	}
	if have := r.Cached(api.ScopeOf(other).GVR(api.ApprovalKind), api.Key{Namespace: other.Namespace, Name: name}); have != nil {
		seal, err := r.Seals.ProofOf(ctx, have)
		if err != nil {
			return gateName{}, "", err
		}
		if seal != nil && seal.Run == run.GetUID() {
			return gateName{seal.Binding.Stage, seal.Binding.When}, "which is there", nil
		}
	}
	st, err := r.Engine.Status(ctx, kubefleet.EngineName(other.Namespace, other.Name))
	switch {
	case errors.Is(err, backend.ErrNotFound) && r.gatesOfBeginning[other] != nil:
		if g, ok := sameRequest(name, other.Name, r.gatesOfBeginning[other]); ok {
			return g, "which is just beginning", nil
		}
		return gateName{}, "", nil
	case errors.Is(err, backend.ErrNotFound):
		g, ok := sameRequest(name, other.Name, r.gatesAhead(run, obj))
		if !ok {
			return gateName{}, "", nil
		}
		return g, "which is older and has not begun yet", nil
	case err != nil:
		return gateName{}, "", err
	}
	own, err := r.Seals.IsOf(ctx, run, st)
	if err != nil || !own || st.Run.Final(st.Plan) {
		return gateName{}, "", err
	}
	g, ok := sameRequest(name, other.Name, gatesOfPlan(st.Plan))
	if !ok {
		return gateName{}, "", nil
	}
	return g, "which has not ended", nil
}

// gatesAhead are the approvals of a run that has not begun and was created before obj, as far as they are known.
func (r *Requests) gatesAhead(run, obj *unstructured.Unstructured) []gateName {
	if api.IsBegun(run) || api.InitializeFailed(run) || api.ShowsRun(run) || run.GetDeletionTimestamp() != nil || !isOlder(run, obj) {
		return nil
	}
	k := api.KeyOf(run)
	template := r.Cached(api.ScopeOf(k).GVR(api.StrategyKind), api.Key{Namespace: k.Namespace, Name: api.StrategyOf(run)})
	if template == nil {
		return nil
	}
	strategy, err := kubefleet.StrategyOf(template)
	if err != nil {
		return nil // it will be refused for that
	}
	return gatesOf(&strategy)
}

// isOlder orders two objects by their creation, and by their UIDs where that was in one second.
func isOlder(a, b *unstructured.Unstructured) bool {
	at, than := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	if !at.Equal(&than) {
		return at.Before(&than)
	}
	return a.GetUID() < b.GetUID()
}
