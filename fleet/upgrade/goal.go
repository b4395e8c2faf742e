package upgrade

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// aim is the goal of a cluster after the target was resolved for it.
type aim struct {
	Goal
	// problems keep the cluster from reaching the goal.
	problems []Problem
	// without is why there is no image for the cluster, under Consistent.
	without string
}

// aimAt resolves a target for a cluster.
func aimAt(t Target, c *Cluster) aim {
	var a aim
	if t.Type != NodeImageOnly {
		a.ControlPlane = t.KubernetesVersion
		a.problems = checkVersions(t, c)
	}
	if t.Type == ControlPlaneOnly {
		return a
	}
	for i := range c.Pools {
		p := &c.Pools[i]
		goal := PoolGoal{Name: p.Name, Image: a.image(t, c, p)}
		if t.Type == Full {
			goal.Version = t.KubernetesVersion
		}
		a.Pools = append(a.Pools, goal)
	}
	return a
}

// image returns the image that a pool gets, or "" if it keeps its image.
func (a *aim) image(t Target, c *Cluster, p *Pool) string {
	if s := t.NodeImages.Selection; s == "" || s == Latest {
		if len(p.Images) == 0 {
			return ""
		}
		return p.Images[0]
	}
	image := t.NodeImages.choose(p)
	switch custom := t.NodeImages.Selection == Custom; {
	case image == "" && custom:
		a.problems = append(a.problems, Problem{
			Object: poolName(p), Passing: true,
			Message: fmt.Sprintf("it is offered none of the images %s in region %q, and has %q", brief(t.NodeImages.Versions), c.Region, p.Image),
		})
	case image == "":
		a.without = fmt.Sprintf("%s is offered none of the images that the run's regions have in common in region %q: %s", poolName(p), c.Region, brief(t.NodeImages.Versions))
	case p.newer(image) && custom:
		a.problems = append(a.problems, Problem{
			Object: poolName(p), Message: fmt.Sprintf("it would go back from image %s to %s, which is older: leave it out, or choose a newer image", p.Image, image),
		})
	case p.newer(image):
		return ""
	}
	return image
}

// choose returns the first image of the list that a pool is offered or has, or "".
func (n NodeImages) choose(p *Pool) string {
	for _, image := range n.Versions {
		if image == p.Image || slices.Contains(p.Images, image) {
			return image
		}
	}
	return ""
}

// newer reports whether the image of a pool is known to be newer than another image.
func (p *Pool) newer(image string) bool {
	has, want := slices.Index(p.Images, p.Image), slices.Index(p.Images, image)
	return has >= 0 && has < want
}

// missing returns the parts that differ from the goal, in the order of their upgrades.
func (g *Goal) missing(c *Cluster) (parts []Part) {
	if g.ControlPlane != "" && !same(c.ControlPlane, g.ControlPlane) {
		parts = append(parts, ControlPlane)
	}
	for i := range c.Pools {
		if !g.has(&c.Pools[i]) {
			return append(parts, Nodes)
		}
	}
	return parts
}

// has reports whether a pool has reached the goal.
func (g *Goal) has(p *Pool) bool {
	for _, want := range g.Pools {
		if want.Name == p.Name {
			return (want.Version == "" || same(p.Version, want.Version)) && (want.Image == "" || p.Image == want.Image)
		}
	}
	return true
}

// same reports whether two versions have the same text, except for a leading v.
func same(a, b string) bool { return strings.TrimPrefix(a, "v") == strings.TrimPrefix(b, "v") }

// parsed returns a version, or nil if v is not a version.
func parsed(v string) *version.Version {
	out, err := version.ParseSemantic(v)
	if err != nil {
		return nil
	}
	return out
}

func poolName(p *Pool) string { return "node pool " + p.Name }

// brief joins the first elements of a list and the number of the others.
func brief(list []string) string {
	const most = 5
	if more := len(list) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), more)
	}
	return strings.Join(list, ", ")
}
