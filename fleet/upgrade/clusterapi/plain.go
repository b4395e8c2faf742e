package clusterapi

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-dev/slipway/fleet/upgrade"
)

// writeAll changes a cluster without a topology: first the record on the Cluster, which fences
// other changes, then all objects that create machines. Objects that the change does not concern
// get only the record, so that an engine that read them before can no longer write them. They are
// written first, so that the change is complete once all objects that it concerns have the record.
func (b *beginning) writeAll(ctx context.Context, s *seen) error {
	if err := b.apply(ctx, b.skeleton(s.cluster), s.cluster); err != nil {
		return err
	}
	var last []*nodes
	for _, n := range s.all() {
		if b.concerns(s, n) {
			last = append(last, n)
			continue
		}
		if err := b.write(ctx, s, n); err != nil {
			return err
		}
	}
	for _, n := range last {
		if err := b.write(ctx, s, n); err != nil {
			return err
		}
		b.written = true
	}
	return nil
}

// concerns reports whether the change has a goal for these nodes.
func (b *beginning) concerns(s *seen, n *nodes) bool {
	version, image := b.goal(s, n)
	return version != "" || image != ""
}

// goal returns the change's goal for nodes; "" leaves the version or image unchanged.
func (b *beginning) goal(s *seen, n *nodes) (version, image string) {
	g := b.change.Goal
	switch {
	case b.change.Part == upgrade.Nodes && n == s.control:
		return "", imageOf(g, n.name)
	case b.change.Part == upgrade.Nodes:
		return versionFor(g, n.name), imageOf(g, n.name)
	case n == s.control:
		return g.ControlPlane, imageOf(g, n.name)
	}
	return "", ""
}

// write writes the object of nodes: version, template and record.
func (b *beginning) write(ctx context.Context, s *seen, n *nodes) error {
	version, image := b.goal(s, n)
	obj := b.skeleton(n.object)
	if v := canonical(version, n.version); v != "" {
		if err := unstructured.SetNestedField(obj, v, versionOf(n.kind)...); err != nil {
			return err
		}
	}
	ref := branch(n.object, s.layout.template(n.kind)...)
	if ref == nil {
		return b.apply(ctx, obj, n.object)
	}
	ref = runtime.DeepCopyJSON(ref)
	if image != "" && image != n.image {
		name, err := b.cloneTemplate(ctx, n, image)
		if err != nil {
			return err
		}
		ref["name"] = name
	}
	if err := unstructured.SetNestedMap(obj, ref, s.layout.template(n.kind)...); err != nil {
		return err
	}
	return b.apply(ctx, obj, n.object)
}
