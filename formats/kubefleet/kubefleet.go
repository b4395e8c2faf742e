// Package kubefleet reads KubeFleet's own YAML files, and objects of an API server, as Slipway's
// nouns.
//
// [Read] takes the documents of a placement with staged update runs as they
// are applied to a hub cluster:
//
//	ClusterResourcePlacement      fleet.Placement and Rollout
//	ResourcePlacement             the same, in a namespace
//	ClusterStagedUpdateStrategy   stages.Strategy
//	StagedUpdateStrategy          the same, in a namespace
//	ClusterStagedUpdateRun        Run, and fleet.RunSpec by Documents.RunSpec
//	StagedUpdateRun               the same, in a namespace
//	ClusterResourceOverride       Override
//	ResourceOverride              Override
//	MemberCluster                 placement.Cluster
//	ClusterResourceEnvelope       *unstructured.Unstructured
//	ResourceEnvelope              the same, in a namespace
//	everything else               the same
//
// It is strict: a field that it does not know, and one that asks for something
// Slipway does not do yet, is an error with its line, never ignored. Ignored
// are only status, which is not a request, but for the properties
// that a MemberCluster reports in it, and metadata that the nouns have no place
// for: labels and annotations (but those of a
// MemberCluster's labels), and what a server sets.
//
// [PlacementOf], [StrategyOf], [RunOf], [OverrideOf] and [ClusterOf] take one
// object from an API server instead.
//
// The engine knows placements, strategies and runs by one name each, which
// [EngineName] makes of namespace and name. What is in a namespace stays there:
// a ResourcePlacement selects objects of its own namespace, and a
// StagedUpdateRun finds its placement and its strategy in its own.
//
// It differs from KubeFleet in this: names of stages are DNS labels, which is
// wider than KubeFleet's lower-case letters and digits; each stage name stands
// once in a strategy; a run without spec.state runs; an Approval may have an approval policy;
// a placement may have carry, see fleet.Placement; a strategy may have rollback and
// progressDeadline, its stages maxFailures, and a run the state Rollback; an
// override may have a priority. Numbers of
// things are limited by size, and else by what the nouns say. Objects are
// applied on the server, with force: type ClientSideApply, the API's default,
// asks for the same result and is carried out that way. What a RollingUpdate
// comes to is said at [Rollout.Strategy].
//
// Everything here is a pure function of its arguments, but for reading the
// reader.
package kubefleet

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// Documents are what was read, each list in the order of the input.
type Documents struct {
	// Placements carry those of Overrides that concern them.
	Placements []fleet.Placement
	// Rollouts is the spec.strategy of each placement, by its engine name.
	Rollouts map[string]Rollout
	// Strategies have their engine names.
	Strategies []stages.Strategy
	Runs       []Run
	Clusters   []placement.Cluster
	Overrides  []Override
	// Objects are the documents of all other kinds, as they stand.
	Objects []*unstructured.Unstructured
}

// State is what a [Run] is to do.
type State string

// The states of a run.
const (
	// Initialize makes the plan and does not start.
	Initialize State = "Initialize"
	// RunState starts. It is the default of a document, as in the tutorial. The definitions of KubeFleet 0.18 make the default
	// Initialize.
	RunState State = "Run"
	// Stop stops; a run that is created with it does not start.
	Stop State = "Stop"
	// Rollback ends the run and takes back what it brought, by a run of its own. No
	// run begins with it. KubeFleet does not have it.
	Rollback State = "Rollback"
)

// Run is a ClusterStagedUpdateRun, or with a Namespace a StagedUpdateRun, whose
// placement and strategy are in the same namespace. Names are those of the
// documents.
type Run struct {
	Namespace string
	Name      string
	Placement string
	// Index is the resource snapshot to roll out; nil means the newest.
	Index        *int
	StrategyName string
	State        State
}

// Override is a ClusterResourceOverride or a ResourceOverride.
type Override struct {
	placement.Override
	// Placement is the only placement that it concerns; empty means all.
	Placement string
	// PlacementNamespace is the namespace of that placement, and then that of
	// the override too; empty means a ClusterResourcePlacement.
	PlacementNamespace string
	// AnyScope says that an override in a namespace names its placement without a scope: the override concerns the
	// ResourcePlacement of that name in its namespace, too.
	AnyScope bool
}

// Concerns reports whether the override is for a placement, as [Read] and
// [PlacementOf] return it: it names the placement, or it names none and is
// cluster-scoped or in a namespace of which the placement may select something.
func (o Override) Concerns(p fleet.Placement) bool {
	if o.Placement != "" {
		return EngineName(o.PlacementNamespace, o.Placement) == p.Name || o.AnyScope && EngineName(o.Namespace, o.Placement) == p.Name
	}
	return o.Namespace == "" || snapshot.Reaches(p.Selectors, o.Namespace)
}

// EngineName returns the name of the run for the engine.
func (r Run) EngineName() string { return EngineName(r.Namespace, r.Name) }

// PlacementName returns the engine name of the run's placement.
func (r Run) PlacementName() string { return EngineName(r.Namespace, r.Placement) }

// Spec returns the run as the engine takes it, with the strategy that it names,
// and held unless its state is Run.
func (r Run) Spec(s stages.Strategy) fleet.RunSpec {
	return fleet.RunSpec{Name: r.EngineName(), Placement: r.PlacementName(), Index: r.Index, Strategy: s, Hold: r.State != RunState}
}

// RunSpec returns the run of that engine name as the engine takes it: with its
// strategy, and held unless its state is Run. It is an error if there is no
// such run, or if its placement or its strategy was not read, or if the
// placement's strategy.type is not External, or if its state is Rollback; the
// error tells all of that.
func (d Documents) RunSpec(name string) (fleet.RunSpec, error) {
	i := slices.IndexFunc(d.Runs, func(r Run) bool { return r.EngineName() == name })
	if i < 0 {
		return fleet.RunSpec{}, fmt.Errorf("no staged update run %q was read", yamldoc.Clip(name))
	}
	r := d.Runs[i]
	errs := d.checkPlacement(r)
	if r.State == Rollback {
		errs = append(errs, field.Invalid(field.NewPath("spec", "state"), string(Rollback), "takes back what a run brought; begin it with another one"))
	}
	strategy := EngineName(r.Namespace, r.StrategyName)
	s := slices.IndexFunc(d.Strategies, func(s stages.Strategy) bool { return s.Name == strategy })
	if s < 0 {
		errs = append(errs, field.NotFound(field.NewPath("spec", "stagedRolloutStrategyName"), yamldoc.Clip(r.StrategyName)))
	}
	if len(errs) > 0 {
		return fleet.RunSpec{}, fmt.Errorf("%s/%s: %w", scoped(r.Namespace, "StagedUpdateRun"), r.Name, errs.ToAggregate())
	}
	return r.Spec(d.Strategies[s]), nil
}

// scoped returns the kind in a namespace, or its cluster-scoped twin.
func scoped(namespace, kind string) string {
	if namespace == "" {
		return "Cluster" + kind
	}
	return kind
}

// checkPlacement checks that staged runs of the placement are possible.
func (d Documents) checkPlacement(r Run) field.ErrorList {
	path := field.NewPath("spec", "placementName")
	if !slices.ContainsFunc(d.Placements, func(p fleet.Placement) bool { return p.Name == r.PlacementName() }) {
		return field.ErrorList{field.NotFound(path, yamldoc.Clip(r.Placement))}
	}
	if t := d.Rollouts[r.PlacementName()].Type; t != External {
		return field.ErrorList{field.Invalid(path, r.Placement, fmt.Sprintf(
			"the placement's spec.strategy.type is %s; staged runs need %s", t, External))}
	}
	return nil
}

// link gives each placement the overrides that concern it.
func link(placements []fleet.Placement, overrides []Override) []fleet.Placement {
	linked := slices.Clone(placements)
	for i := range linked {
		linked[i].Overrides = nil
		for _, o := range overrides {
			if o.Concerns(linked[i]) {
				linked[i].Overrides = append(linked[i].Overrides, o.Override)
			}
		}
	}
	return linked
}
