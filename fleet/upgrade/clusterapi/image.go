package clusterapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// Images configures how node images are set. It concerns machine templates of the infrastructure
// provider, such as DockerMachineTemplate.
type Images struct {
	// Path is the template's field for the image, for example spec.template.spec.customImage: names of
	// fields joined by dots. The field must be a string.
	Path string
	// TemplateVersion is the version of the template's kind, for example v1beta1. It is required with
	// v1beta2 of Cluster API, because its references have no version.
	TemplateVersion string
	// Variable is the ClusterClass variable for the image, for clusters with a topology; it must be a
	// string. The class must copy its value to Path unchanged. It is set for each node pool
	// separately, as an override. Without Variable, the images of clusters with a topology cannot be
	// changed.
	Variable string
}

func (i *Images) path() []string { return strings.Split(i.Path, ".") }

func (i *Images) validate(l layout) error {
	if i == nil {
		return nil
	}
	path := i.path()
	if path[0] != "spec" || len(path) < 2 || slices.Contains(path, "") {
		return fmt.Errorf("field Images.Path is %q, it must be a field below spec: names with dots between them", i.Path)
	}
	if i.TemplateVersion == "" && !l.old() {
		return errors.New("field Images.TemplateVersion is empty, it must be the version of the template's kind")
	}
	return nil
}

// Annotations of a template that was created for an image: the change that it was created for, and
// the name of the template that it descends from.
const (
	changeAnnotation = "slipway.dev/upgrade-change"
	originAnnotation = "slipway.dev/upgrade-from"
)

// readImages reads the templates of the machines. Several nodes may share a template.
func (p *Provider) readImages(ctx context.Context, s *seen, namespace string) error {
	if p.images == nil {
		return nil
	}
	found := map[snapshot.ID]string{}
	for _, n := range s.all() {
		ref := branch(n.object, p.layout.template(n.kind)...)
		if ref == nil {
			continue
		}
		id, err := p.layout.reference(ref, namespace, p.images.TemplateVersion)
		if err != nil {
			return errors.New(n.says("%s: %v", strings.Join(p.layout.template(n.kind), "."), err))
		}
		image, ok := found[id]
		if !ok {
			obj, err := p.conn.Get(ctx, id)
			if err != nil {
				return transient(err)
			}
			image = text(obj.Object, p.images.path()...)
			found[id] = image
		}
		n.template, n.image = id, image
	}
	p.readOverrides(s)
	return nil
}

// readOverrides reads the images that a topology wants.
func (p *Provider) readOverrides(s *seen) {
	s.overrides = map[string]string{}
	if p.images.Variable == "" {
		return
	}
	s.overrides[ControlPlanePool] = p.override(branch(s.topology, "controlPlane"))
	for _, planned := range branches(s.topology, maxPools, "workers", "machineDeployments") {
		s.overrides[text(planned, "name")] = p.override(planned)
	}
}

func (p *Provider) override(of tree) string {
	for _, o := range branches(of, maxConditions, "variables", "overrides") {
		if text(o, "name") == p.images.Variable {
			return text(o, "value")
		}
	}
	return ""
}

// wantedImage returns the desired image of nodes, or "" if the topology has none for them.
func (s *seen) wantedImage(n *nodes) string {
	if s.topology != nil {
		return s.overrides[n.name]
	}
	return n.image
}

// refuseImage returns why an image cannot be set, or nil.
func (p *Provider) refuseImage(s *seen, n *nodes, image string) error {
	switch {
	case image == "":
		return nil
	case p.images == nil:
		return errors.New(n.says("is to get an image: say in Config.Images where images are"))
	case s.topology != nil && p.images.Variable == "":
		return errors.New(n.says("is to get an image, and the cluster has a topology: say in Config.Images.Variable which variable it is"))
	case s.topology == nil && n.template == (snapshot.ID{}):
		return errors.New(n.says("is to get an image, and names no machine template"))
	}
	return nil
}

// maxBase leaves room for the suffix in the name of a template.
const maxBase = 50

// cloneTemplate creates a template with another image, and returns its name. It never changes a
// template, because templates are immutable and existing machines keep them. If the same change has
// created the template before, cloneTemplate reuses it.
func (b *beginning) cloneTemplate(ctx context.Context, n *nodes, image string) (string, error) {
	source, err := b.p.conn.Get(ctx, n.template)
	if err != nil {
		return "", transient(err)
	}
	clone, err := b.clone(source, image)
	if err != nil {
		return "", err
	}
	_, err = b.p.conn.Apply(ctx, clone, backend.ApplyOptions{Manager: manager, Precondition: backend.Precondition{Absent: true}})
	if errors.Is(err, backend.ErrConflict) {
		err = b.confirm(ctx, clone, image)
	}
	return clone.GetName(), err
}

// clone returns a copy of the template with another image.
func (b *beginning) clone(source *unstructured.Unstructured, image string) (*unstructured.Unstructured, error) {
	spec := runtime.DeepCopyJSON(branch(source.Object, "spec"))
	if err := unstructured.SetNestedField(spec, image, b.p.images.path()[1:]...); err != nil {
		return nil, fmt.Errorf("template %s has no field %s that could be an image: %w", source.GetName(), b.p.images.Path, backend.ErrPermanent)
	}
	origin := source.GetAnnotations()[originAnnotation]
	if origin == "" || len(origin) > maxBase {
		origin = strings.TrimRight(source.GetName()[:min(len(source.GetName()), maxBase)], ".-")
	}
	sum := sha256.Sum256([]byte(b.change.ID + "\n" + source.GetName() + "\n" + image))
	out := &unstructured.Unstructured{Object: tree{"apiVersion": source.GetAPIVersion(), "kind": source.GetKind(), "spec": spec}}
	out.SetName(origin + "-" + hex.EncodeToString(sum[:5]))
	out.SetNamespace(source.GetNamespace())
	out.SetLabels(source.GetLabels())
	out.SetAnnotations(map[string]string{changeAnnotation: b.change.ID, originAnnotation: origin})
	return out, nil
}

// confirm returns an error unless the existing template equals the template that would be created.
func (b *beginning) confirm(ctx context.Context, clone *unstructured.Unstructured, image string) error {
	live, err := b.p.conn.Get(ctx, snapshot.IDOf(clone))
	if err != nil {
		return transient(err)
	}
	if live.GetAnnotations()[changeAnnotation] != b.change.ID || text(live.Object, b.p.images.path()...) != image {
		return fmt.Errorf("%s %s is there, and is not for this change: remove it: %w", clone.GetKind(), clone.GetName(), backend.ErrPermanent)
	}
	return nil
}
