package kubefleet

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
)

// MaxBytes is the maximum number of bytes that [Read] reads.
const MaxBytes = yamldoc.MaxBytes

const (
	placementGroup = "placement.kubernetes-fleet.io"
	clusterGroup   = "cluster.kubernetes-fleet.io"
)

// Read reads YAML documents, and JSON, which is YAML. A document whose kind ends in List is read as
// its items. The name identifies the input in errors.
//
// The error is a problem.List with all problems of all documents, or the error of r. A document with
// a problem is left out; the others are returned with the error. Problems repeat names and the
// values of fields of KubeFleet's kinds, but no contents of other objects.
func Read(r io.Reader, name string) (Documents, error) { return ReadAll(Input{name, r}) }

// Input is one of the inputs of [ReadAll].
type Input struct {
	// Name identifies the input in errors.
	Name string
	Text io.Reader
}

// ReadAll reads several inputs as [Read] reads one. Documents may refer to documents of other
// inputs, and a document may occur only once in all of them.
func ReadAll(inputs ...Input) (Documents, error) {
	rd := &reader{out: Documents{places: map[string]Place{}}, seen: map[string]Place{}}
	for _, in := range inputs {
		docs, err := yamldoc.Read(in.Text, in.Name)
		if err != nil {
			return Documents{}, err
		}
		for d := range docs {
			if d.IsEmpty() {
				rd.problems.Include(&d.Report)
				continue
			}
			rd.root(d)
		}
	}
	rd.out.Placements = link(rd.out.Placements, rd.out.Overrides)
	return rd.out, rd.problems.Err()
}

// reader collects the documents of one input.
type reader struct {
	out      Documents
	problems yamldoc.Report
	// seen maps the identity of each document to its place.
	seen map[string]Place
}

// root reads a document, or the items of a List.
func (r *reader) root(d *document) {
	d.Identify()
	v := d.Root()
	items, _ := v.Get("items")
	switch {
	case v.IsNull():
	case strings.HasSuffix(d.Kind, "List") && items.IsList():
		items.Each(func(item value) { r.root(item.Document()) })
	default:
		r.document(d)
		r.problems.Include(&d.Report)
	}
}

func (r *reader) document(d *document) {
	if !d.Root().IsObject() {
		d.Root().Fail("must be an object with apiVersion and kind, not %s; separate documents by ---", d.Root().Describe())
		return
	}
	group, version, _ := strings.Cut(d.APIVersion, "/")
	ours := group == placementGroup || group == clusterGroup
	if d.APIVersion == "" || d.Kind == "" {
		header(d)
		return
	}
	r.identify(d, group)
	switch {
	case !ours:
		r.object(d)
	case !slices.Contains(versions(group), version):
		d.Root().Place("apiVersion").Fail("the version is not known; known are %s", strings.Join(versions(group), ", "))
	default:
		r.fleetKind(d, group)
	}
}

// header reports a missing apiVersion or kind.
func header(d *document) {
	for _, name := range []string{"apiVersion", "kind"} {
		if v := d.Root(); v.Peek(name) == "" {
			v.Place(name).Fail("must be a string, and not empty")
		}
	}
}

func versions(group string) []string {
	if group == clusterGroup {
		return []string{"v1", "v1beta1"}
	}
	return []string{"v1", "v1alpha1", "v1beta1"}
}

// identify reports a document that occurs twice in the inputs.
func (r *reader) identify(d *document, group string) {
	id, at := fmt.Sprintf("%q", []string{group, d.Kind, d.Namespace, d.Name}), Place{d.File, d.Root().Line()}
	if first, ok := r.seen[id]; ok && d.Name != "" {
		there := fmt.Sprintf("in the document on line %d", first.Line)
		if first.File != at.File {
			there = "at " + first.String()
		}
		d.Tell(at.Line, "metadata.name", "is there already, "+there+"; names are unique in their kind")
		return
	}
	r.seen[id] = at
	r.out.places[placeKey(d.Kind, d.Namespace, d.Name)] = at
}

// fleetKind reads a document of one of KubeFleet's kinds.
func (r *reader) fleetKind(d *document, group string) {
	switch group + "/" + d.Kind {
	case placementGroup + "/ClusterResourcePlacement", placementGroup + "/ResourcePlacement":
		r.placement(d, d.Kind == "ResourcePlacement")
	case placementGroup + "/ClusterStagedUpdateStrategy", placementGroup + "/StagedUpdateStrategy":
		take(d, &r.out.Strategies, readStrategy(d, d.Kind == "StagedUpdateStrategy"))
	case placementGroup + "/ClusterStagedUpdateRun", placementGroup + "/StagedUpdateRun":
		take(d, &r.out.Runs, readRun(d, d.Kind == "StagedUpdateRun"))
	case placementGroup + "/ClusterResourceOverride":
		take(d, &r.out.Overrides, readOverride(d, false))
	case placementGroup + "/ResourceOverride":
		take(d, &r.out.Overrides, readOverride(d, true))
	case placementGroup + "/ClusterResourceEnvelope", placementGroup + "/ResourceEnvelope":
		r.object(d)
	case clusterGroup + "/MemberCluster":
		take(d, &r.out.Clusters, readCluster(d))
	default:
		d.Root().Place("kind").Fail("%s", notRead(d.Kind))
	}
}

// notRead explains why a kind of the Fleet API is not read.
func notRead(kind string) string {
	switch kind {
	case "ClusterApprovalRequest", "ApprovalRequest":
		return "only a hub reads the answer to a request from its object; a run of another store is answered by slipway approve; leave the document out"
	case "ClusterResourcePlacementEviction", "ClusterResourcePlacementDisruptionBudget":
		return "only a hub carries out evictions and keeps disruption budgets; leave the document out"
	case "ClusterSchedulingPolicySnapshot", "SchedulingPolicySnapshot", "ClusterResourceSnapshot", "ResourceSnapshot",
		"ClusterResourceOverrideSnapshot", "ResourceOverrideSnapshot", "ClusterResourceBinding", "ResourceBinding", "ClusterResourcePlacementStatus":
		return "this kind is not read, because a hub writes such objects itself; leave the document out"
	}
	return "this kind is not read; known are " + strings.Join(knownKinds, ", ") + ": correct the kind, or leave the document out"
}

// knownKinds are the kinds that are read, without their twins in a namespace.
var knownKinds = []string{ //nolint:gochecknoglobals // a constant
	"ClusterResourcePlacement", "ClusterResourceOverride", "ClusterStagedUpdateStrategy", "ClusterStagedUpdateRun", "ClusterResourceEnvelope", "MemberCluster",
}

func (r *reader) placement(d *document, namespaced bool) {
	p, rollout := readPlacement(d, namespaced)
	if take(d, &r.out.Placements, p) {
		if r.out.Rollouts == nil {
			r.out.Rollouts = map[string]Rollout{}
		}
		r.out.Rollouts[p.Name] = rollout
	}
}

// take appends the result of a document unless the document has problems.
func take[T any](d *document, list *[]T, x T) bool {
	if !d.OK() {
		return false
	}
	*list = append(*list, x)
	return true
}

// object reads a document of any other kind.
func (r *reader) object(d *document) {
	m, _ := d.Root().Tree().(map[string]any)
	if d.Name == "" {
		d.Root().Place("metadata.name").Fail("must be a string, and not empty")
	}
	take(d, &r.out.Objects, &unstructured.Unstructured{Object: m})
}
