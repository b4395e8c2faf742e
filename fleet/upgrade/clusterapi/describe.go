package clusterapi

import (
	"context"
	"fmt"

	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/placement"
)

// Describe reads the cluster and returns its state. See [upgrade.Provider].
func (p *Provider) Describe(ctx context.Context, c placement.Cluster) (upgrade.Cluster, error) {
	s, err := p.read(ctx, c)
	if err != nil {
		return upgrade.Cluster{}, err
	}
	d, err := s.describe()
	if err == nil && p.complete != nil {
		err = p.complete(ctx, c, &d)
	}
	if err != nil {
		return upgrade.Cluster{}, fmt.Errorf("cluster %s: %w", c.Name, err)
	}
	return d, nil
}

func (s *seen) describe() (upgrade.Cluster, error) {
	record, err := s.record()
	if err != nil {
		return upgrade.Cluster{}, err
	}
	d := upgrade.Cluster{
		Region:       text(branch(s.cluster, "metadata", "labels"), regionLabel),
		ControlPlane: s.control.oldest(),
		Operation:    s.operation(record),
		Message:      s.ailing(),
	}
	if d.ControlPlane == "" {
		return upgrade.Cluster{}, fmt.Errorf("the control plane has no version yet")
	}
	d.Healthy = d.Message == ""
	for _, n := range s.pools {
		d.Pools = append(d.Pools, s.describePool(n))
	}
	if s.images {
		d.Pools = append(d.Pools, s.describePool(s.control))
	}
	return d, nil
}

// describePool describes a pool, without an image while its nodes have different ones.
func (s *seen) describePool(n *nodes) upgrade.Pool {
	pool := upgrade.Pool{Name: n.name, Version: n.oldest()}
	if n.rolling(s.layout) == "" {
		pool.Image = n.image
	}
	return pool
}

// ailing names the first part that does not work; "" if all work.
func (s *seen) ailing() string {
	for _, n := range s.all() {
		if what := n.ailing(s.layout); what != "" {
			return what
		}
	}
	return ""
}

// all returns the control plane and the pools.
func (s *seen) all() []*nodes { return append([]*nodes{s.control}, s.pools...) }

// find returns the nodes of a name, or nil if there are none.
func (s *seen) find(name string) *nodes {
	for _, n := range s.all() {
		if n.name == name {
			return n
		}
	}
	return nil
}

// operation returns the operation on the cluster, or nil if there is none. If the objects still
// want the goal of the last change, the operation is that change, and its state follows from the
// objects. Otherwise another manager has written to the objects since, or the change never reached
// them.
func (s *seen) operation(record upgrade.Change) *upgrade.Operation {
	if record.ID != "" && s.has(record) {
		concerned := s.concerned(record)
		left, broken := s.left(concerned), firstOf(concerned, (*nodes).failed)
		switch {
		case left != "" && broken != "":
			return &upgrade.Operation{Change: record, State: upgrade.Failed, Message: broken}
		case left != "":
			return &upgrade.Operation{Change: record, State: upgrade.Running, Message: left}
		case s.left(s.all()) == "":
			return &upgrade.Operation{Change: record, State: upgrade.Succeeded}
		}
	}
	if left := s.left(s.all()); left != "" {
		return &upgrade.Operation{State: upgrade.Running, Message: left}
	}
	return nil
}

// left describes the rest of the rollout to nodes; "" if it is complete.
func (s *seen) left(of []*nodes) string {
	if what := s.pending(); what != "" {
		return what
	}
	return firstOf(of, func(n *nodes) string { return n.rolling(s.layout) })
}

func firstOf(of []*nodes, say func(*nodes) string) string {
	for _, n := range of {
		if what := say(n); what != "" {
			return what
		}
	}
	return ""
}

// concerned returns the nodes that a change concerns, and the control plane.
func (s *seen) concerned(change upgrade.Change) []*nodes {
	out := []*nodes{s.control}
	if change.Part == upgrade.ControlPlane {
		return out
	}
	for _, g := range change.Goal.Pools {
		if n := s.find(g.Name); n != nil && n != s.control {
			out = append(out, n)
		}
	}
	return out
}

// has reports whether the objects want the goal of a change.
func (s *seen) has(change upgrade.Change) bool {
	if change.Part == upgrade.ControlPlane {
		image := imageOf(change.Goal, ControlPlanePool)
		return (change.Goal.ControlPlane == "" || sameVersion(s.wanted(), change.Goal.ControlPlane)) &&
			(image == "" || s.wantedImage(s.control) == image)
	}
	for _, g := range change.Goal.Pools {
		if n := s.find(g.Name); n == nil || !s.hasPool(n, g) {
			return false
		}
	}
	return true
}

func (s *seen) hasPool(n *nodes, g upgrade.PoolGoal) bool {
	switch {
	case g.Image != "" && s.wantedImage(n) != g.Image:
		return false
	case g.Version == "" || n == s.control:
		return true
	case s.topology == nil:
		return sameVersion(n.version, g.Version)
	}
	return !n.deferred && sameVersion(s.wanted(), g.Version)
}

// wanted returns the desired version of the control plane.
func (s *seen) wanted() string {
	if s.topology != nil {
		return text(s.topology, "version")
	}
	return s.control.version
}

// imageOf returns a goal's image for a pool, or "".
func imageOf(g upgrade.Goal, pool string) string {
	for _, p := range g.Pools {
		if p.Name == pool {
			return p.Image
		}
	}
	return ""
}
