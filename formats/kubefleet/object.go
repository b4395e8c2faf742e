package kubefleet

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// PlacementOf reads a ClusterResourcePlacement or a ResourcePlacement that an API server returned,
// as [Read] reads a document. The placement has no overrides: see [Override.Concerns]. Defaults of
// the server are read like explicit values. The error is a problem.List without files and lines.
func PlacementOf(obj *unstructured.Unstructured) (p fleet.Placement, r Rollout, err error) {
	d := documentOf(obj, placementGroup, "ClusterResourcePlacement", "ResourcePlacement")
	if d.OK() {
		p, r = readPlacement(d, d.Kind == "ResourcePlacement")
	}
	if err := d.Err(); err != nil {
		return fleet.Placement{}, Rollout{}, err
	}
	return p, r, nil
}

// StrategyOf reads a ClusterStagedUpdateStrategy or a StagedUpdateStrategy, as
// [PlacementOf] reads a placement. The name is its [EngineName].
func StrategyOf(obj *unstructured.Unstructured) (stages.Strategy, error) {
	d := documentOf(obj, placementGroup, "ClusterStagedUpdateStrategy", "StagedUpdateStrategy")
	return one(d, func(d *document) stages.Strategy { return readStrategy(d, d.Kind == "StagedUpdateStrategy") })
}

// RunOf reads a ClusterStagedUpdateRun or a StagedUpdateRun, as [PlacementOf]
// reads a placement.
func RunOf(obj *unstructured.Unstructured) (Run, error) {
	d := documentOf(obj, placementGroup, "ClusterStagedUpdateRun", "StagedUpdateRun")
	return one(d, func(d *document) Run { return readRun(d, d.Kind == "StagedUpdateRun") })
}

// OverrideOf reads a ClusterResourceOverride or a ResourceOverride, as
// [PlacementOf] reads a placement.
func OverrideOf(obj *unstructured.Unstructured) (Override, error) {
	d := documentOf(obj, placementGroup, "ClusterResourceOverride", "ResourceOverride")
	return one(d, func(d *document) Override { return readOverride(d, d.Kind == "ResourceOverride") })
}

// ClusterOf reads a MemberCluster, as [PlacementOf] reads a placement. The cluster has no UID: the
// inventory must set the identity.
func ClusterOf(obj *unstructured.Unstructured) (placement.Cluster, error) {
	return one(documentOf(obj, clusterGroup, "MemberCluster"), readCluster)
}

// documentOf makes a document of an object, and reports an object of another kind. Only the status
// of a MemberCluster is read.
func documentOf(obj *unstructured.Unstructured, group string, kinds ...string) *document {
	d := yamldoc.New("")
	tree, ok := map[string]any(nil), false
	if obj != nil {
		content := obj.Object
		if group == placementGroup { // its status may list a thousand clusters
			content = maps.Clone(content)
			delete(content, "status")
		}
		tree, ok = yamldoc.Plain(content).(map[string]any)
	}
	if !ok {
		d.Tell(0, "", "there is no object, or one that has no JSON form")
		return d
	}
	if d.Open(yamldoc.NodeOf(tree), ""); d.OK() {
		d.Identify()
		isOneOf(d, group, kinds)
	}
	return d
}

// isOneOf reports an object that is none of the kinds.
func isOneOf(d *document, group string, kinds []string) {
	own, version, _ := strings.Cut(d.APIVersion, "/")
	if own != group || !slices.Contains(versions(group), version) {
		d.Root().Place("apiVersion").Fail("must be %s/%s, not %q", group, strings.Join(versions(group), " or "), yamldoc.Clip(d.APIVersion))
	}
	if !slices.Contains(kinds, d.Kind) {
		d.Root().Place("kind").Fail("must be %s, not %q", strings.Join(kinds, " or "), yamldoc.Clip(d.Kind))
	}
}

// one returns the result of read, or the problems of the document.
func one[T any](d *document, read func(*document) T) (T, error) {
	var none T
	if d.OK() {
		x := read(d)
		if d.OK() {
			return x, nil
		}
	}
	return none, d.Err()
}
