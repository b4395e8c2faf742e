// Package kubefleet answers how KubeFleet's own YAML files become Slipway's
// nouns, and how those become YAML again.
//
// [Read] takes the documents of a placement with staged update runs as they
// are applied to a hub cluster:
//
//	ClusterResourcePlacement      fleet.Placement
//	ClusterStagedUpdateStrategy   stages.Strategy
//	ClusterStagedUpdateRun        Run, and fleet.RunSpec by Documents.RunSpec
//	ClusterResourceOverride       Override
//	ResourceOverride              Override
//	MemberCluster                 placement.Cluster
//	everything else               *unstructured.Unstructured
//
// It is strict: a field that it does not know, and one that asks for something
// Slipway does not do yet, is an error with its line, never ignored. Ignored
// are only status, which is not what somebody asks for, and metadata that the
// nouns have no place for: labels and annotations (but those of a
// MemberCluster's labels), and what a server sets.
//
// It differs from KubeFleet in this: names of placements are DNS labels; names
// of stages are DNS labels too, which is wider than KubeFleet's lower-case
// letters and digits; each stage name stands once in a strategy; a run without
// spec.state runs; a placement that does not say whenToApply is applied by runs
// and left alone between them, and one that says Always is kept. Numbers of things are limited by size only.
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
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// Documents are what was read, each list in the order of the input.
type Documents struct {
	// Placements carry those of Overrides that concern them.
	Placements []fleet.Placement
	// Rollouts is the spec.strategy.type of each placement, by its name.
	Rollouts   map[string]Rollout
	Strategies []stages.Strategy
	Runs       []Run
	Clusters   []placement.Cluster
	Overrides  []Override
	// Objects are the documents of all other kinds, as they stand.
	Objects []*unstructured.Unstructured
}

// Rollout is how a placement says that its changes reach the clusters.
type Rollout string

// The rollout strategies of a placement.
const (
	// External leaves it to staged update runs.
	External Rollout = "External"
	// RollingUpdate is KubeFleet's default. Slipway reads it, without its
	// settings, and starts no run for it.
	RollingUpdate Rollout = "RollingUpdate"
)

// State is what a [Run] is to do.
type State string

// The states of a run.
const (
	// Initialize makes the plan and does not start.
	Initialize State = "Initialize"
	// RunState starts. It is the default, as in the tutorial.
	RunState State = "Run"
	// Stop stops; a run that is created with it does not start.
	Stop State = "Stop"
)

// Run is a ClusterStagedUpdateRun.
type Run struct {
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
}

// RunSpec returns the run of that name as the engine takes it: with its
// strategy, and held unless its state is Run. It is an error if there is no
// such run, or if its placement or its strategy was not read, or if the
// placement's strategy.type is not External; the error tells all of that.
func (d Documents) RunSpec(name string) (fleet.RunSpec, error) {
	i := slices.IndexFunc(d.Runs, func(r Run) bool { return r.Name == name })
	if i < 0 {
		return fleet.RunSpec{}, fmt.Errorf("no ClusterStagedUpdateRun %q was read", clip(name))
	}
	r := d.Runs[i]
	errs := d.checkPlacement(r.Placement)
	s := slices.IndexFunc(d.Strategies, func(s stages.Strategy) bool { return s.Name == r.StrategyName })
	if s < 0 {
		errs = append(errs, field.NotFound(field.NewPath("spec", "stagedRolloutStrategyName"), clip(r.StrategyName)))
	}
	if len(errs) > 0 {
		return fleet.RunSpec{}, fmt.Errorf("ClusterStagedUpdateRun/%s: %w", name, errs.ToAggregate())
	}
	return fleet.RunSpec{
		Name: r.Name, Placement: r.Placement, Index: r.Index, Strategy: d.Strategies[s], Hold: r.State != RunState,
	}, nil
}

// checkPlacement checks that staged runs of the placement are possible.
func (d Documents) checkPlacement(name string) field.ErrorList {
	path := field.NewPath("spec", "placementName")
	if !slices.ContainsFunc(d.Placements, func(p fleet.Placement) bool { return p.Name == name }) {
		return field.ErrorList{field.NotFound(path, clip(name))}
	}
	if t := d.Rollouts[name]; t != External {
		return field.ErrorList{field.Invalid(path, name, fmt.Sprintf(
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
			if o.Placement == "" || o.Placement == linked[i].Name {
				linked[i].Overrides = append(linked[i].Overrides, o.Override)
			}
		}
	}
	return linked
}
