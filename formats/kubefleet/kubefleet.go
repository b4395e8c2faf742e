// Package kubefleet reads KubeFleet's YAML files, and objects of an API server, and converts them
// to Slipway's types.
//
// [Read] and [ReadAll] read the documents of a placement with staged update runs, in the form in
// which they are applied to a hub cluster:
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
// The other kinds of the Fleet API are refused: only a hub reads answers to approval requests,
// evictions and disruption budgets, and it writes snapshots, bindings and requests itself.
//
// Read is strict: an unknown field, or a field that requests a feature that Slipway does not
// support yet, is an error with its line. It ignores only data that requests nothing: status,
// labels, annotations, and metadata that a server sets. Of a MemberCluster it reads the labels, and
// the properties in the status.
//
// [PlacementOf], [StrategyOf], [RunOf], [OverrideOf] and [ClusterOf] convert one object from an API
// server instead.
//
// The engine knows placements, strategies and runs by one name each, which [EngineName] makes from
// namespace and name. Objects in a namespace stay there: a ResourcePlacement selects objects of its
// own namespace, and a StagedUpdateRun uses the placement and the strategy in its own namespace.
//
// The package differs from KubeFleet in these points:
//
//   - Names of stages are DNS labels, which is wider than KubeFleet's lower-case letters and digits,
//     and are unique in a strategy.
//   - A run without spec.state runs, and a run may have the state Rollback.
//   - An Approval may have an approval policy.
//   - A placement may have carry, see fleet.Placement.
//   - A strategy may have rollback, progressDeadline and unreachableDeadline, and its stages
//     maxFailures.
//   - An override may have a priority.
//   - The number of items in a list is limited by the size of the input, and otherwise by the rules
//     of Slipway's types.
//   - Objects are applied on the server, and fields are taken over from other managers unless the
//     type is ServerSideApply without force. ClientSideApply, the API's default, is also carried out
//     as a server-side apply, because its result would be the same.
//   - A RollingUpdate becomes a run, as described at [Rollout.Strategy].
//
// Read walks the nodes of a document and does not convert them to the Go types of package v1beta1,
// because each problem needs the line and the path of its field, and because a type does not
// distinguish an absent field from an empty one. A test compares the fields that are read with the
// fields of the types.
//
// Everything here is a pure function of its arguments, except for reading the input.
package kubefleet

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// Documents holds the objects that were read, each list in the order of the input.
type Documents struct {
	// Placements include the Overrides that concern them.
	Placements []fleet.Placement
	// Rollouts is the spec.strategy of each placement, by its engine name.
	Rollouts map[string]Rollout
	// Strategies have their engine names.
	Strategies []stages.Strategy
	Runs       []Run
	Clusters   []placement.Cluster
	Overrides  []Override
	// Objects are the documents of all other kinds, unchanged.
	Objects []*unstructured.Unstructured

	places map[string]Place
}

// Place is the line on which a document begins, counted from 1.
type Place struct {
	File string
	Line int
}

// String returns file:line.
func (p Place) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// PlaceOf returns the place of the document with that kind, namespace and name. It is zero if no
// such document was read.
func (d Documents) PlaceOf(kind, namespace, name string) Place {
	return d.places[placeKey(kind, namespace, name)]
}

func placeKey(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

// Run is a ClusterStagedUpdateRun or, with a Namespace, a StagedUpdateRun, whose placement and
// strategy are in the same namespace. The names are the names in the documents.
type Run struct {
	Namespace string
	Name      string
	Placement string
	// Index is the resource snapshot to roll out; nil means the newest.
	Index        *int
	StrategyName string
	// State is StateRun if the document has none, as in the tutorial. The definitions of KubeFleet
	// 0.18 make StateInitialize the default.
	State v1beta1.State
}

// Override is a ClusterResourceOverride or a ResourceOverride.
type Override struct {
	placement.Override
	// Placement is the name of the only placement that the override concerns; empty means all
	// placements.
	Placement string
	// PlacementNamespace is the namespace of that placement, which must equal the namespace of the
	// override; empty means a ClusterResourcePlacement.
	PlacementNamespace string
	// AnyScope reports whether an override in a namespace names its placement without a scope. Then
	// the override also concerns the ResourcePlacement of that name in its namespace.
	AnyScope bool
}

// Concerns reports whether the override is for a placement, as [Read] and [PlacementOf] return it.
// An override that names a placement is for that placement. An override that names none is for the
// placement if it is cluster-scoped, or in a namespace from which the placement may select
// something.
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

// Spec returns the run for the engine, with the strategy that it names. The run is on hold unless
// its state is Run.
func (r Run) Spec(s stages.Strategy) fleet.RunSpec {
	return fleet.RunSpec{Name: r.EngineName(), Placement: r.PlacementName(), Index: r.Index, Strategy: s, Hold: r.State != v1beta1.StateRun}
}

// RunSpec returns the run with that engine name for the engine, with its strategy. The run is on
// hold unless its state is Run. It is an error if there is no such run, if its placement or its
// strategy was not read, if the placement's strategy.type is not External, or if the state is
// Rollback. The error lists all of these problems.
func (d Documents) RunSpec(name string) (fleet.RunSpec, error) {
	i := slices.IndexFunc(d.Runs, func(r Run) bool { return r.EngineName() == name })
	if i < 0 {
		return fleet.RunSpec{}, fmt.Errorf("no staged update run %q was read", yamldoc.Clip(name))
	}
	r := d.Runs[i]
	errs := d.checkPlacement(r)
	if r.State == v1beta1.StateRollback {
		errs = append(errs, field.Invalid(field.NewPath("spec", "state"), string(v1beta1.StateRollback), "rolls back a run that exists; begin the run with another state"))
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
	if t := d.Rollouts[r.PlacementName()].Type; t != v1beta1.ExternalRolloutStrategyType {
		return field.ErrorList{field.Invalid(path, r.Placement, fmt.Sprintf(
			"the placement's spec.strategy.type is %s; staged runs need %s", t, v1beta1.ExternalRolloutStrategyType))}
	}
	return nil
}

// link adds to each placement the overrides that concern it.
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
