package oam

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/formats/problem"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// Options are the host's choices.
type Options struct {
	// Kinds are kinds of objects that may be placed in addition to [DefaultKinds].
	Kinds []schema.GroupVersionKind
	// SuspendOnFailure suspends a workflow after a failed step; KubeVela's default is to end it.
	SuspendOnFailure bool
}

// PlacementOwner is the owner of the placements of applications. Their names identify the
// application.
const PlacementOwner = "Application.core.oam.dev"

// DefaultKinds returns the kinds of objects that an application may have.
func DefaultKinds() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		{Group: "apps", Version: "v1", Kind: "Deployment"},
		{Version: "v1", Kind: "Secret"},
		{Version: "v1", Kind: "ConfigMap"},
		{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"},
	}
}

// Release is an application at one publishVersion in the terms of the engine; KubeVela stores it
// as an ApplicationRevision. It can be stored as JSON. The creator of its run must store it,
// because policies and workflows may be edited later.
type Release struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Version is the publishVersion or, without one, a digest of the release except for the objects.
	Version    string      `json:"version"`
	Components []Component `json:"components"`
	// Workflow has the steps in the order of execution, including steps that never run.
	Workflow Workflow `json:"workflow"`
	// Placement must be declared before the run is created. A new release supersedes an active one.
	Placement fleet.Placement `json:"placement"`
	// Run is named after the application and the version; its Owner is the version.
	Run fleet.RunSpec `json:"run"`
	// Before has the steps that an earlier run carried out, if this release restarts the workflow from
	// a later step.
	Before []StepStatus `json:"before,omitempty"`
	// Whole has all stages of the workflow if Run has only the last ones because of a restart.
	Whole []stages.Stage `json:"whole,omitempty"`
}

// Publish returns the release of an application with the policies and the workflow of docs, for
// the clusters of an inventory. An application without a workflow deploys to its topologies one
// after the other. The clusters of topologies are picked here; another release never changes an
// existing run.
//
// The error is a [problem.List] without files and lines. It lists everything that is missing or
// inconsistent, including a cluster in several deploy steps, because a run updates a cluster
// once.
func Publish(docs Documents, app Application, clusters []placement.Cluster, o Options) (Release, error) {
	b := &publisher{docs: docs, app: app, options: o, clusters: clusters, taken: map[string]string{}}
	b.rel = Release{Namespace: app.Namespace, Name: app.Name, Version: app.PublishVersion, Components: app.Components}
	b.rel.Workflow = b.workflow()
	b.drop()
	b.selectors()
	b.strategy()
	b.place()
	if err := b.problems.Err(); err != nil {
		return Release{}, err
	}
	b.name()
	return b.rel, nil
}

// IsDue reports whether an application needs a run. newest is the version of the newest release
// with a run, empty for none. An edit of the application, or of its references, without another
// publishVersion needs none.
func (r *Release) IsDue(newest string) bool { return r.Version != newest }

// publisher makes a release.
type publisher struct {
	docs     Documents
	app      Application
	options  Options
	clusters []placement.Cluster
	rel      Release
	// dropped are the steps that never run.
	dropped map[string]bool
	// taken has the step of each cluster, picked the clusters in the same order.
	taken    map[string]string
	picked   []string
	problems yamldoc.Report
}

func (b *publisher) fail(field, text string) {
	b.problems.Add(problem.Problem{Kind: "Application", Name: yamldoc.Clip(b.app.Name), Field: field, Text: text})
}

// workflow returns the steps of the application.
func (b *publisher) workflow() Workflow {
	w := Workflow{Namespace: b.app.Namespace, Name: b.app.Name, Mode: b.app.Mode, Steps: b.app.Steps}
	if ref := b.app.WorkflowRef; ref != "" {
		i := slices.IndexFunc(b.docs.Workflows, func(w Workflow) bool { return w.Namespace == b.app.Namespace && w.Name == ref })
		if i < 0 {
			b.fail("spec.workflow.ref", "there is no Workflow "+yamldoc.Clip(ref)+" in namespace "+b.app.Namespace)
			return w
		}
		return b.docs.Workflows[i]
	}
	if len(w.Steps) == 0 {
		w.Steps = b.defaultSteps()
	}
	return w
}

// defaultSteps deploy to the topologies in the application, one after the other, with all its
// overrides.
func (b *publisher) defaultSteps() (steps []Step) {
	var overrides []string
	for _, p := range b.app.Policies {
		if p.Type == OverrideType {
			overrides = append(overrides, p.Name)
		}
	}
	for _, p := range b.app.Policies {
		if p.Type == TopologyType {
			d := &Deploy{Policies: append(slices.Clone(overrides), p.Name), Parallelism: DefaultParallelism}
			steps = append(steps, Step{Name: "deploy-" + p.Name, Type: DeployStep, Deploy: d})
		}
	}
	if len(steps) == 0 {
		b.fail("spec", "has neither a workflow nor a policy of type topology, so nothing says where it goes")
	}
	return steps
}

// policy finds a policy by name, first in the application.
func (b *publisher) policy(name string) *Policy {
	for _, list := range [][]Policy{b.app.Policies, b.docs.Policies} {
		i := slices.IndexFunc(list, func(p Policy) bool {
			return p.Name == name && (p.Namespace == "" || p.Namespace == b.app.Namespace)
		})
		if i >= 0 {
			return &list[i]
		}
	}
	return nil
}

// selectors selects the objects of the components, and their namespace, which must exist before
// them.
func (b *publisher) selectors() {
	kinds := append(DefaultKinds(), b.options.Kinds...)
	list := []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: b.app.Namespace, Scope: snapshot.NamespaceOnly}}
	seen := map[string]string{}
	for i, c := range b.app.Components {
		for j, ref := range c.Objects {
			at := "spec.components[" + itoa(i) + "].properties.objects[" + itoa(j) + "]"
			if gvk := ref.gvk(); !slices.Contains(kinds, gvk) {
				b.fail(at, "objects of kind "+yamldoc.Clip(kindText(gvk))+" are not placed; allowed are "+kindsText(kinds))
			}
			s := ref.selector(b.app.Namespace)
			key, _ := json.Marshal(s)
			if other, ok := seen[string(key)]; ok {
				b.fail(at, "component "+other+" has it already; leave one of the two")
				continue
			}
			seen[string(key)] = c.Name
			list = append(list, s)
		}
	}
	b.rel.Placement.Selectors = list
}

func (ref *ObjectRef) gvk() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: ref.Group, Version: ref.Version, Kind: ref.Kind}
}

func (ref *ObjectRef) selector(namespace string) snapshot.Selector {
	s := snapshot.Selector{Group: ref.Group, Version: ref.Version, Kind: ref.Kind, Namespace: namespace, Name: ref.Name}
	if ref.Name == "" {
		s.LabelSelector = labelSelector(ref.Labels)
	}
	return s
}

func kindText(k schema.GroupVersionKind) string {
	return k.GroupVersion().String() + " " + k.Kind
}

func kindsText(kinds []schema.GroupVersionKind) string {
	words := make([]string, len(kinds))
	for i, k := range kinds {
		words[i] = kindText(k)
	}
	return listed(words)
}

// place sets the placement: the clusters of all steps.
func (b *publisher) place() {
	p := &b.rel.Placement
	p.Name, p.Owner = kubefleet.ApplicationName(b.app.Namespace, b.app.Name), PlacementOwner
	p.Admission = stages.SupersedeActive
	p.Policy = placement.Policy{Type: placement.PickFixed, ClusterNames: slices.Sorted(slices.Values(b.picked))}
	if len(b.picked) == 0 && b.problems.OK() {
		b.fail("spec", "no step deploys to any cluster")
	}
}

// name names the release and its run.
func (b *publisher) name() {
	r := &b.rel
	if r.Version == "" {
		r.Version = "spec-" + r.digest()
	}
	r.Run.Owner, r.Run.Placement = r.Version, r.Placement.Name
	r.Run.Name = kubefleet.ApplicationName(r.Namespace, r.Name+"."+versionLabel(r.Version))
}

// digest identifies the release except for its objects.
func (r *Release) digest() string {
	text, _ := json.Marshal(r)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// versionLabel turns a version into a part of a name. Different versions have different labels.
func versionLabel(version string) string {
	const most, hashed = 30, 8
	if len(validation.IsDNS1123Label(version)) == 0 && len(version) <= most && !strings.Contains(version, "--") {
		return version
	}
	sum := sha256.Sum256([]byte(version))
	kept := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, version[:min(len(version), most-hashed)])
	return strings.Trim(strings.Trim(kept, "-")+"--"+hex.EncodeToString(sum[:hashed/2]), "-")
}
