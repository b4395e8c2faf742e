package upgrade

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/slipway-dev/slipway/snapshot"
)

// Type selects the parts of a cluster to upgrade.
type Type string

// Types of an upgrade. The names are Azure's.
const (
	// Full upgrades the control plane, the node pools and their images.
	Full Type = "Full"
	// ControlPlaneOnly leaves the nodes unchanged.
	ControlPlaneOnly Type = "ControlPlaneOnly"
	// NodeImageOnly leaves all versions unchanged.
	NodeImageOnly Type = "NodeImageOnly"
)

// Selection determines how node images are chosen.
type Selection string

// Selections of node images. The names are Azure's.
const (
	// Latest is the newest image that a node pool is offered when its cluster starts. A pool that is
	// offered no image keeps its image. Latest is the default.
	Latest Selection = "Latest"
	// Consistent is the newest image that all regions of a run have in common: see
	// [Resolve].
	Consistent Selection = "Consistent"
	// Custom is an explicit list.
	Custom Selection = "Custom"
)

// Target is the desired state of the clusters of a run.
type Target struct {
	Type Type `json:"type"`
	// KubernetesVersion is a version with its patch, such as 1.30.2, for Full and ControlPlaneOnly.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// NodeImages are the images for Full and NodeImageOnly.
	NodeImages NodeImages `json:"nodeImageSelection,omitzero"`
	// Unavailable are the names of clusters that a run leaves out, because they did not answer when
	// the target was determined; sorted. [AutoUpgrade] sets this field.
	Unavailable []string `json:"unavailable,omitempty"`
}

// exclusionReason returns why a run leaves a cluster out, or "" if it upgrades the cluster.
func (t Target) exclusionReason(cluster string) string {
	if !slices.Contains(t.Unavailable, cluster) {
		return ""
	}
	return "left out: it did not answer when the target of the run was determined; create another run when it answers"
}

// NodeImages selects the images of nodes.
type NodeImages struct {
	// Selection is Latest if empty.
	Selection Selection `json:"type,omitempty"`
	// Versions are the images of Custom, and the images that [Resolve] found for Consistent, one for
	// each family of nodes. A node pool gets the first of these images that it is offered or has. If
	// that image would be older, a pool keeps its image under Consistent, and Check reports a problem
	// under Custom.
	Versions []string `json:"versions,omitempty"`
}

const (
	group      = "slipway.dev"
	apiVersion = "v1"
	kind       = "ClusterUpgrade"
	// maxImages and maxImage bound a list of images and the length of each.
	maxImages = 64
	maxImage  = 253
)

// Validate returns all errors of t, with paths below path.
func (t Target) Validate(path *field.Path) field.ErrorList {
	errs := t.validateVersion(path)
	for i, name := range t.Unavailable {
		switch at := path.Child("unavailable").Index(i); {
		case name == "":
			errs = append(errs, field.Required(at, "the name of a cluster"))
		case slices.Contains(t.Unavailable[:i], name):
			errs = append(errs, field.Duplicate(at, name))
		}
	}
	if t.Type == ControlPlaneOnly {
		if t.NodeImages.Selection != "" || len(t.NodeImages.Versions) > 0 {
			errs = append(errs, field.Forbidden(path.Child("nodeImageSelection"), "type ControlPlaneOnly leaves the nodes as they are"))
		}
		return errs
	}
	return append(errs, t.NodeImages.validate(path.Child("nodeImageSelection"))...)
}

func (t Target) validateVersion(path *field.Path) field.ErrorList {
	at := path.Child("kubernetesVersion")
	switch t.Type {
	case Full, ControlPlaneOnly:
	case NodeImageOnly:
		if t.KubernetesVersion != "" {
			return field.ErrorList{field.Forbidden(at, "type NodeImageOnly leaves the versions as they are")}
		}
		return nil
	default:
		return field.ErrorList{field.NotSupported(path.Child("type"), t.Type, []Type{Full, ControlPlaneOnly, NodeImageOnly})}
	}
	if t.KubernetesVersion == "" {
		return field.ErrorList{field.Required(at, fmt.Sprintf("type %s needs the version to go to, as 1.30.2", t.Type))}
	}
	if _, err := version.ParseSemantic(t.KubernetesVersion); err != nil {
		return field.ErrorList{field.Invalid(at, t.KubernetesVersion, "must be a version with its patch, as 1.30.2")}
	}
	return nil
}

func (n NodeImages) validate(path *field.Path) field.ErrorList {
	at := path.Child("versions")
	var errs field.ErrorList
	switch n.Selection {
	case "", Latest:
		if len(n.Versions) > 0 {
			errs = append(errs, field.Forbidden(at, "Latest takes what there is; list versions with type Custom"))
		}
		return errs
	case Custom:
		if len(n.Versions) == 0 {
			errs = append(errs, field.Required(at, "type Custom needs at least one image"))
		}
	case Consistent:
	default:
		return field.ErrorList{field.NotSupported(path.Child("type"), n.Selection, []Selection{Latest, Consistent, Custom})}
	}
	return append(errs, validateImages(at, n.Versions)...)
}

func validateImages(at *field.Path, images []string) field.ErrorList {
	if len(images) > maxImages {
		return field.ErrorList{field.TooMany(at, len(images), maxImages)}
	}
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, image := range images {
		switch {
		case image == "":
			errs = append(errs, field.Required(at.Index(i), "an image has a name"))
		case len(image) > maxImage:
			errs = append(errs, field.TooLong(at.Index(i), image, maxImage))
		case seen.Has(image):
			errs = append(errs, field.Duplicate(at.Index(i), image))
		}
		seen.Insert(image)
	}
	return errs
}

// resolved reports whether [Resolve] has nothing left to do.
func (t Target) resolved() bool {
	return t.NodeImages.Selection != Consistent || len(t.NodeImages.Versions) > 0
}

// check returns why t cannot be rolled out.
func (t Target) check() error {
	if errs := t.Validate(nil); len(errs) > 0 {
		return fmt.Errorf("upgrade target: %w", errs.ToAggregate())
	}
	if !t.resolved() {
		return fmt.Errorf("upgrade target: nodeImageSelection.versions: type Consistent was not resolved: call Resolve first")
	}
	return nil
}

// Object returns a target as an object with the given name, which a run can roll out. A host with
// several placements may put several such objects into one source.
func Object(name string, t Target) (*unstructured.Unstructured, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&t)
	if err != nil {
		return nil, fmt.Errorf("upgrade target: %w", err)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/" + apiVersion, "kind": kind,
		"metadata": map[string]any{"name": name}, "spec": spec,
	}}, nil
}

// Source returns a source of one object, the target under a name. Reading it fails if the target is
// invalid or not resolved.
func Source(name string, t Target) snapshot.Source {
	return snapshot.SourceFunc(func(_ context.Context, q snapshot.Query) iter.Seq2[*unstructured.Unstructured, error] {
		return func(yield func(*unstructured.Unstructured, error) bool) {
			if asks(q, name) {
				yield(Object(name, t))
			}
		}
	})
}

// asks reports whether a query includes the target of the given name.
func asks(q snapshot.Query, name string) bool {
	return (q.Kind == "" || q.Group == group && q.Kind == kind) && (q.Name == "" || q.Name == name)
}

// Selector selects the object that [Source] and [Object] return for a name.
func Selector(name string) snapshot.Selector {
	return snapshot.Selector{Group: group, Version: apiVersion, Kind: kind, Name: name}
}

// TargetOf decodes the target in a snapshot. The caller must have verified the set.
func TargetOf(set snapshot.Set) (Target, error) {
	if len(set.Bodies) != 1 || len(set.Unplaced) > 0 || set.Items[0].Group != group || set.Items[0].Kind != kind {
		return Target{}, fmt.Errorf("revision %s is no upgrade: it must have one object, a %s of %s", set.Digest, kind, group)
	}
	var object struct {
		Spec json.RawMessage `json:"spec"`
	}
	err := json.Unmarshal(set.Bodies[0], &object)
	var t Target
	if err == nil {
		strict := json.NewDecoder(bytes.NewReader(object.Spec))
		strict.DisallowUnknownFields() // an unknown part must not be ignored
		err = strict.Decode(&t)
	}
	if err != nil {
		return Target{}, fmt.Errorf("revision %s: %w", set.Digest, err)
	}
	return t, t.check()
}
