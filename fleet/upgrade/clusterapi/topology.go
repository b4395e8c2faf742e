package clusterapi

import (
	"context"

	"github.com/slipway-dev/slipway/fleet/upgrade"
)

// writeTopology changes the topology of a Cluster, in one write.
func (b *beginning) writeTopology(ctx context.Context, s *seen) error {
	version := s.wanted()
	if b.change.Part == upgrade.ControlPlane {
		version = canonical(b.change.Goal.ControlPlane, version)
	}
	topology := tree{"version": version}
	if variables := b.variables(s, s.control); variables != nil {
		topology["controlPlane"] = tree{"variables": variables}
	}
	var pools []any
	for _, n := range s.pools {
		if pool := b.topologyPool(s, n, version); pool != nil {
			pools = append(pools, pool)
		}
	}
	if pools != nil {
		topology["workers"] = tree{"machineDeployments": pools}
	}
	obj := b.skeleton(s.cluster)
	obj["spec"] = tree{"topology": topology}
	return b.apply(ctx, obj, s.cluster)
}

// topologyPool returns our part of a pool in a topology, or nil if there is none.
func (b *beginning) topologyPool(s *seen, n *nodes, version string) tree {
	pool := tree{"name": n.name}
	if b.defers(s, n, version) {
		pool["metadata"] = tree{"annotations": tree{deferAnnotation: deferredByUs}}
	}
	if variables := b.variables(s, n); variables != nil {
		pool["variables"] = variables
	}
	if len(pool) == 1 {
		return nil
	}
	return pool
}

// defers reports whether the write must hold back the upgrade of a pool. A pool is not upgraded
// together with the control plane, but by the later change of the nodes.
func (b *beginning) defers(s *seen, n *nodes, version string) bool {
	switch {
	case n.foreign || n.object == nil || sameVersion(version, n.version):
		return false
	case b.change.Part == upgrade.ControlPlane && !sameVersion(version, s.wanted()):
		return true
	case b.change.Part == upgrade.Nodes && versionFor(b.change.Goal, n.name) != "":
		return false
	}
	return n.deferred
}

// versionFor returns a goal's version for a pool, or "".
func versionFor(g upgrade.Goal, pool string) string {
	for _, p := range g.Pools {
		if p.Name == pool {
			return p.Version
		}
	}
	return ""
}

// variables returns the override of the image for nodes, or nil if there is none. It repeats an
// existing override, because an apply removes fields that it omits.
func (b *beginning) variables(s *seen, n *nodes) tree {
	image := s.wantedImage(n)
	if g := imageOf(b.change.Goal, n.name); g != "" && (b.change.Part == upgrade.Nodes || n == s.control) {
		image = g
	}
	if b.p.images == nil || b.p.images.Variable == "" || image == "" {
		return nil
	}
	return tree{"overrides": []any{tree{"name": b.p.images.Variable, "value": image}}}
}
