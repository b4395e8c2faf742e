package kubefleet

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// PlacementOf reads a ClusterResourcePlacement or a ResourcePlacement that an
// API server returned, as [Read] reads a document. It has no overrides: see
// [Override.Concerns]. What the server filled in by default reads as if it had
// been written. The error is a [Problems] without files and lines.
func PlacementOf(obj *unstructured.Unstructured) (p fleet.Placement, r Rollout, err error) {
	d := documentOf(obj, placementGroup, "ClusterResourcePlacement", "ResourcePlacement")
	if d.root != nil {
		p, r = d.placement(d.kind == "ResourcePlacement")
	}
	if err := d.asError(); err != nil {
		return fleet.Placement{}, Rollout{}, err
	}
	return p, r, nil
}

// StrategyOf reads a ClusterStagedUpdateStrategy or a StagedUpdateStrategy, as
// [PlacementOf] reads a placement. The name is its [EngineName].
func StrategyOf(obj *unstructured.Unstructured) (stages.Strategy, error) {
	d := documentOf(obj, placementGroup, "ClusterStagedUpdateStrategy", "StagedUpdateStrategy")
	return one(d, func(d *document) stages.Strategy { return d.strategy(d.kind == "StagedUpdateStrategy") })
}

// RunOf reads a ClusterStagedUpdateRun or a StagedUpdateRun, as [PlacementOf]
// reads a placement.
func RunOf(obj *unstructured.Unstructured) (Run, error) {
	d := documentOf(obj, placementGroup, "ClusterStagedUpdateRun", "StagedUpdateRun")
	return one(d, func(d *document) Run { return d.run(d.kind == "StagedUpdateRun") })
}

// OverrideOf reads a ClusterResourceOverride or a ResourceOverride, as
// [PlacementOf] reads a placement.
func OverrideOf(obj *unstructured.Unstructured) (Override, error) {
	d := documentOf(obj, placementGroup, "ClusterResourceOverride", "ResourceOverride")
	return one(d, func(d *document) Override { return d.override(d.kind == "ResourceOverride") })
}

// ClusterOf reads a MemberCluster, as [PlacementOf] reads a placement. It has no
// UID: what identifies a cluster is for the inventory to say.
func ClusterOf(obj *unstructured.Unstructured) (placement.Cluster, error) {
	return one(documentOf(obj, clusterGroup, "MemberCluster"), (*document).cluster)
}

// documentOf makes a document of an object, without a root if it is none of
// the kinds.
func documentOf(obj *unstructured.Unstructured, group string, kinds ...string) *document {
	d := &document{broken: map[string]bool{}}
	tree, ok := map[string]any(nil), false
	if obj != nil {
		tree, ok = plainTree(obj.Object).(map[string]any)
	}
	if !ok {
		d.report(0, "", "there is no object, or one that has no JSON form")
		return d
	}
	root := node(tree)
	e, err := measure{}.of(root)
	if err == nil {
		err = e.check()
	}
	if err != nil {
		d.report(0, "", err.Error())
		return d
	}
	d = newDocument("", 0, root)
	if !d.isOneOf(group, kinds) {
		d.root = nil
	}
	return d
}

// isOneOf tells whether the document is of one of the kinds, and reports what
// it is otherwise.
func (d *document) isOneOf(group string, kinds []string) bool {
	own, version, _ := strings.Cut(d.apiVersion, "/")
	if own != group || !slices.Contains(versions(group), version) {
		d.report(0, "apiVersion", fmt.Sprintf("must be %s/%s, not %q", group, strings.Join(versions(group), " or "), clip(d.apiVersion)))
	}
	if !slices.Contains(kinds, d.kind) {
		d.report(0, "kind", fmt.Sprintf("must be %s, not %q", strings.Join(kinds, " or "), clip(d.kind)))
	}
	return len(d.problems) == 0
}

// one returns what read makes of a document, or what is wrong with it.
func one[T any](d *document, read func(*document) T) (T, error) {
	var none T
	if d.root == nil {
		return none, d.asError()
	}
	x := read(d)
	if err := d.asError(); err != nil {
		return none, err
	}
	return x, nil
}

func (d *document) asError() error { return d.problems.asError(d.more) }
