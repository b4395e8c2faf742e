package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// emptyStages is the flag --allow-empty-stages. Without the flag the command refuses a run
// with a stage that waits and has no cluster, because the wait guards no cluster. An engine and a
// hub run it.
type emptyStages struct{ allowed bool }

func (e *emptyStages) addFlag(flags *pflag.FlagSet) {
	flags.BoolVar(&e.allowed, "allow-empty-stages", false, "also create a run with a stage that has an approval, a wait or another task, and no cluster; a hub always does")
}

// check refuses a run whose plan has such a stage. If the run cannot be planned, its creation fails
// and says why.
func (e *emptyStages) check(ctx context.Context, c call, spec fleet.RunSpec) error {
	if e.allowed || c.Hub != nil {
		return nil
	}
	p, err := c.Preview(ctx, spec)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	return e.checkPlan(ctx, c, &spec, p)
}

// checkPlan refuses a plan that has such a stage. A plan without any cluster changes nothing, and a
// stage with clusters that the placement does not pick belongs to a strategy of several placements.
func (e *emptyStages) checkPlan(ctx context.Context, c call, spec *fleet.RunSpec, p *stages.Plan) error {
	if e.allowed || c.Hub != nil || p.Len() == 0 {
		return nil
	}
	labels := "is --cluster-labels missing?"
	if c.Live {
		labels = "does the engine have --cluster-labels?"
	}
	var errs []error
	for i := range p.Stages {
		st := &p.Stages[i]
		waits := waitsFor(st)
		at := slices.IndexFunc(p.Strategy.Stages, func(s stages.Stage) bool { return s.Name == st.Name })
		if st.Size() > 0 || st.Pauses() || waits == "" || at < 0 {
			continue
		}
		s, why := &p.Strategy.Stages[at], ""
		if s.Take != nil || s.Rest { // the earlier stages took all
			continue
		}
		has, err := hasClusters(ctx, c, spec.Placement, s)
		if has {
			continue
		}
		noCluster := "no cluster"
		if err != nil {
			noCluster += " of placement " + spec.Placement
		}
		switch {
		case len(s.Clusters) > 0:
			why = noCluster + " is named " + strings.Join(s.Clusters, ", ")
		case s.Selector != nil:
			why = fmt.Sprintf("%s has %s (%s)", noCluster, metav1.FormatLabelSelector(s.Selector), labels)
		default:
			why = "it has no labelSelector"
		}
		errs = append(errs, fmt.Errorf("run %s: stage %s has no clusters, so its %s guards nothing: %s; --allow-empty-stages creates the run all the same", spec.Name, st.Name, waits, why))
	}
	return errors.Join(errs...)
}

// hasClusters reports whether the inventory has a cluster with the labels of a stage, whether the
// placement picks it or not.
func hasClusters(ctx context.Context, c call, placed string, s *stages.Stage) (bool, error) {
	if s.Selector == nil {
		return false, nil
	}
	r, err := c.Placement(placed).PreviewResolve(ctx, &placement.Policy{
		Required: []placement.Term{{LabelSelector: *s.Selector}}, Tolerations: []placement.Toleration{{Operator: placement.Exists}},
	})
	return len(r.Clusters) > 0, err
}

// waitsFor names the task that a stage or one of its groups waits for, "" if there is none. An
// approval counts most.
func waitsFor(st *stages.PlannedStage) string {
	gates := slices.Clone(st.Gates)
	for i := range st.Groups {
		gates = append(gates, st.Groups[i].Gates...)
	}
	has := func(kind stages.TaskType) bool {
		return slices.ContainsFunc(gates, func(g stages.PlannedGate) bool { return g.Type == kind })
	}
	switch {
	case len(gates) == 0:
		return ""
	case has(stages.Approval):
		return "approval"
	case has(stages.TimedWait):
		return "wait"
	default:
		return "task"
	}
}
