package kubefleet

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// MaxBytes is how much [Read] reads at most.
const MaxBytes = 16 << 20

const (
	placementGroup = "placement.kubernetes-fleet.io"
	clusterGroup   = "cluster.kubernetes-fleet.io"
)

// Read reads YAML documents, and JSON, which is YAML. A document of a kind
// that ends in List counts as its items. The name stands for the input in
// errors.
//
// The error, if there is one, is a [Problems] with everything that is wrong
// with every document, or that of r. A document with a problem is left out;
// the others are returned with the error. Problems repeat names and the values
// of fields of KubeFleet's kinds, but no contents of other objects.
func Read(r io.Reader, name string) (Documents, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return Documents{}, fmt.Errorf("%s: %w", name, err)
	}
	if len(data) > MaxBytes {
		return Documents{}, Problems{{File: name, Line: 1, Text: fmt.Sprintf("is longer than %d bytes; split it", MaxBytes)}}
	}
	rd := &reader{file: name, seen: map[string]int{}}
	for _, c := range split(data) {
		rd.chunk(c)
	}
	rd.out.Placements = link(rd.out.Placements, rd.out.Overrides)
	return rd.out, rd.problems.asError(rd.more)
}

// reader collects what is read from one input.
type reader struct {
	file     string
	out      Documents
	problems Problems
	// more counts the problems that are not kept.
	more int
	// used is the extent of what was read so far.
	used extent
	// seen are the lines of the documents by their identity.
	seen map[string]int
}

func (r *reader) chunk(c chunk) {
	roots, err := c.parse()
	for _, root := range roots {
		if err := r.fits(root); err != nil {
			r.report(Problem{File: r.file, Line: c.before + root.Line, Text: "the document " + err.Error()})
			continue
		}
		r.root(newDocument(r.file, c.before, root))
	}
	if err != nil {
		p := c.syntaxProblem(err)
		p.File = r.file
		r.report(p)
	}
}

// fits tells why a document is too large to be read after the others. One that
// is takes nothing from those behind it.
func (r *reader) fits(root *yaml.Node) error {
	e, err := measure{}.of(root)
	if err != nil {
		return err
	}
	used := r.used
	used.nodes += e.nodes
	used.bytes += e.bytes
	used.depth = e.depth
	if err := used.check(); err != nil {
		return err
	}
	r.used = used
	return nil
}

// report keeps problems, up to a limit, and counts the rest.
func (r *reader) report(problems ...Problem) {
	room := max(0, min(len(problems), maxProblems-len(r.problems)))
	r.problems = append(r.problems, problems[:room]...)
	r.more += len(problems) - room
}

// root reads a document, or the items of a list.
func (r *reader) root(d *document) {
	v := d.value()
	if v.isNull() {
		return
	}
	items, ok := v.get("items")
	if ok && strings.HasSuffix(d.kind, "List") && items.node.Kind == yaml.SequenceNode {
		items.list(func(item value) { r.root(newDocument(d.file, d.before, item.node)) })
		return
	}
	r.document(d)
	r.report(d.problems...)
	r.more += d.more
}

func (r *reader) document(d *document) {
	if d.root.Kind != yaml.MappingNode {
		d.value().fail("must be an object with apiVersion and kind, not %s; separate documents by ---", d.value().describe())
		return
	}
	group, version, _ := strings.Cut(d.apiVersion, "/")
	ours := group == placementGroup || group == clusterGroup
	if d.apiVersion == "" || d.kind == "" {
		d.header()
		return
	}
	r.identify(d, group)
	switch {
	case !ours:
		r.object(d)
	case !slices.Contains(versions(group), version):
		v, _ := d.value().get("apiVersion")
		v.fail("the version is not known; known are %s", strings.Join(versions(group), ", "))
	default:
		r.fleetKind(d, group)
	}
}

// header reports what is missing to know what the document is.
func (d *document) header() {
	for _, name := range []string{"apiVersion", "kind"} {
		if d.peek(name) == "" {
			d.report(d.find(name), name, "must be a string, and not empty")
		}
	}
}

func versions(group string) []string {
	if group == clusterGroup {
		return []string{"v1", "v1beta1"}
	}
	return []string{"v1", "v1alpha1", "v1beta1"}
}

// identify reports a document that stands in the input twice.
func (r *reader) identify(d *document, group string) {
	id := fmt.Sprintf("%q", []string{group, d.kind, d.namespace, d.name})
	if line, ok := r.seen[id]; ok && d.name != "" {
		d.report(d.root.Line, "metadata.name", "is there already, in the document on line "+strconv.Itoa(line)+"; names are unique in their kind")
		return
	}
	r.seen[id] = d.line(d.root.Line)
}

// fleetKind reads a document of one of KubeFleet's kinds.
func (r *reader) fleetKind(d *document, group string) {
	switch group + "/" + d.kind {
	case placementGroup + "/ClusterResourcePlacement", placementGroup + "/ResourcePlacement":
		r.placement(d, d.kind == "ResourcePlacement")
	case placementGroup + "/ClusterStagedUpdateStrategy", placementGroup + "/StagedUpdateStrategy":
		take(d, &r.out.Strategies, d.strategy(d.kind == "StagedUpdateStrategy"))
	case placementGroup + "/ClusterStagedUpdateRun", placementGroup + "/StagedUpdateRun":
		take(d, &r.out.Runs, d.run(d.kind == "StagedUpdateRun"))
	case placementGroup + "/ClusterResourceOverride":
		take(d, &r.out.Overrides, d.override(false))
	case placementGroup + "/ResourceOverride":
		take(d, &r.out.Overrides, d.override(true))
	case placementGroup + "/ClusterResourceEnvelope", placementGroup + "/ResourceEnvelope":
		r.object(d)
	case clusterGroup + "/MemberCluster":
		take(d, &r.out.Clusters, d.cluster())
	default:
		v, _ := d.value().get("kind")
		v.fail("this kind is not read; leave the document out")
	}
}

func (r *reader) placement(d *document, namespaced bool) {
	p, rollout := d.placement(namespaced)
	if take(d, &r.out.Placements, p) {
		if r.out.Rollouts == nil {
			r.out.Rollouts = map[string]Rollout{}
		}
		r.out.Rollouts[p.Name] = rollout
	}
}

// take appends what was read from a document without problems.
func take[T any](d *document, list *[]T, x T) bool {
	if len(d.problems) > 0 {
		return false
	}
	*list = append(*list, x)
	return true
}

// object reads a document of any other kind.
func (r *reader) object(d *document) {
	m, _ := d.value().tree().(map[string]any)
	if d.name == "" {
		d.report(d.find("metadata.name"), "metadata.name", "must be a string, and not empty")
	}
	take(d, &r.out.Objects, &unstructured.Unstructured{Object: m})
}
