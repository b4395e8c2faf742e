package upgrade

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/slipway-dev/slipway/backend"
)

// oldestNode is the maximum number of minor versions by which nodes may be older than their
// control plane.
const oldestNode = 3

// Problem is a reason why a cluster cannot be upgraded to a target.
type Problem struct {
	Cluster string
	// Object is the control plane or a node pool.
	Object  string
	Message string
	// Passing reports whether the problem may pass by itself, because something is not offered to the
	// cluster yet.
	Passing bool
}

func (p Problem) String() string {
	return fmt.Sprintf("cluster %s: %s: %s", p.Cluster, p.Object, p.Message)
}

// RefusedError names the clusters that cannot be upgraded to a target. It matches
// backend.ErrPermanent.
type RefusedError struct {
	// Problems are all problems, by the name of the cluster.
	Problems []Problem
}

// Error has a line for each problem.
func (e *RefusedError) Error() string {
	lines := make([]string, 0, len(e.Problems))
	for _, p := range e.Problems {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns backend.ErrPermanent.
func (e *RefusedError) Unwrap() error { return backend.ErrPermanent }

// Check returns a *[RefusedError] with every reason why clusters, by name, cannot be upgraded to a
// target. A cluster cannot be upgraded if the version of its control plane or of a node pool would
// be lowered or would skip a minor version, if nodes would be newer than their control plane or too
// old for it, or if the cluster is not offered the version or a Custom image. A cluster has no
// problem if it is at the target, or if runs skip it because it has no Consistent image or is in
// Target.Unavailable. An invalid target is an error, too.
func Check(clusters map[string]Cluster, t Target) error {
	if err := t.check(); err != nil {
		return err
	}
	var all []Problem
	for _, name := range slices.Sorted(maps.Keys(clusters)) {
		if t.exclusionReason(name) != "" {
			continue
		}
		c := clusters[name]
		a := aimAt(t, &c)
		all = append(all, a.of(name)...)
	}
	if len(all) == 0 {
		return nil
	}
	return &RefusedError{all}
}

// of returns the problems of a cluster. A cluster that is skipped has none.
func (a *aim) of(cluster string) []Problem {
	if a.without != "" {
		return nil
	}
	for i := range a.problems {
		a.problems[i].Cluster = cluster
	}
	return a.problems
}

// checkVersions returns the problems with the versions of an upgrade.
func checkVersions(t Target, c *Cluster) []Problem {
	want := parsed(t.KubernetesVersion)
	if want == nil {
		return []Problem{{Object: "control plane", Message: fmt.Sprintf("%q is no version: it must be as 1.30.2", t.KubernetesVersion)}}
	}
	var all []Problem
	add := func(object, message string) {
		if message != "" {
			all = append(all, Problem{Object: object, Message: message})
		}
	}
	add("control plane", move(c.ControlPlane, want))
	for i := range c.Pools {
		p := &c.Pools[i]
		if t.Type == Full {
			add(poolName(p), move(p.Version, want))
		} else {
			add(poolName(p), apart(p.Version, want))
		}
	}
	if len(all) == 0 && !offered(t, c) {
		all = append(all, Problem{Object: "cluster", Passing: true, Message: fmt.Sprintf(
			"version %s is not offered to it in region %q, only %s", t.KubernetesVersion, c.Region, brief(c.Versions))})
	}
	return all
}

// offered reports whether the provider offers the cluster every version that it lacks.
func offered(t Target, c *Cluster) bool {
	g := Goal{ControlPlane: t.KubernetesVersion}
	if t.Type == Full {
		for i := range c.Pools {
			g.Pools = append(g.Pools, PoolGoal{Name: c.Pools[i].Name, Version: t.KubernetesVersion})
		}
	}
	if c.Versions == nil || len(g.missing(c)) == 0 {
		return true
	}
	return slices.ContainsFunc(c.Versions, func(v string) bool { return same(v, t.KubernetesVersion) })
}

// move returns why a version cannot be upgraded to another version, or "".
func move(from string, to *version.Version) string {
	was := parsed(from)
	switch {
	case was == nil:
		return fmt.Sprintf("its version %q is none that can be compared with %s", from, to)
	case to.LessThan(was):
		return fmt.Sprintf("it has %s and would go down to %s: an upgrade only goes up", from, to)
	case to.Major() != was.Major():
		return fmt.Sprintf("it has %s and would go to another major version, %s", from, to)
	case to.Minor() > was.Minor()+1:
		return fmt.Sprintf("it has %s and would skip minor versions on the way to %s: go to %d.%d first", from, to, was.Major(), was.Minor()+1)
	}
	return ""
}

// apart returns why nodes of one version cannot run under a control plane of another version, or
// "".
func apart(nodes string, to *version.Version) string {
	has := parsed(nodes)
	switch {
	case has == nil:
		return fmt.Sprintf("its version %q is none that can be compared with %s", nodes, to)
	case to.LessThan(has):
		return fmt.Sprintf("it has %s and would be newer than its control plane at %s", nodes, to)
	case has.Major() == to.Major() && has.Minor()+oldestNode < to.Minor():
		return fmt.Sprintf("it has %s, more than %d minor versions less than a control plane at %s: upgrade it first", nodes, oldestNode, to)
	}
	return ""
}
