package embedded

import (
	"maps"
	"slices"
	"time"

	"github.com/slipway-dev/slipway/fleet/upgrade"
)

// State is everything that a provider knows.
type State struct {
	// Regions are where clusters are, by name.
	Regions map[string]*Region `json:"regions,omitempty"`
	// Versions are the Kubernetes versions that are offered to all clusters; nil where
	// every version is.
	Versions []string `json:"versions"`
	// Clusters are the clusters by name.
	Clusters map[string]*Cluster `json:"clusters,omitempty"`
	// Takes is how long a change of a part of a cluster takes, unless the cluster says.
	Takes time.Duration `json:"takes,omitempty"`
	// Epochs are the greatest ones that changes had, by placement.
	Epochs map[string]int64 `json:"epochs,omitempty"`
}

// Region is where clusters are.
type Region struct {
	// Images are what is offered to node pools there, newest first, by family.
	Images map[string][]string `json:"images,omitempty"`
	// Unavailable makes every call for a cluster of the region fail for now. What was
	// begun goes on.
	Unavailable bool `json:"unavailable,omitempty"`
}

// Cluster is a cluster of a [State].
type Cluster struct {
	// UID is compared with that of the caller, where both have one.
	UID    string `json:"uid,omitempty"`
	Region string `json:"region,omitempty"`
	// ControlPlane and Pools are what the cluster has; Images of pools are ignored, since
	// they are the region's.
	ControlPlane string         `json:"controlPlane"`
	Pools        []upgrade.Pool `json:"pools,omitempty"`
	// Takes is how long a change of a part takes; 0 is that of the environment.
	Takes time.Duration `json:"takes,omitempty"`
	// Unavailable is as that of a region.
	Unavailable bool `json:"unavailable,omitempty"`
	// Fail is how many changes from now on fail, -1 for all, and Failure is what they
	// fail with. A change that fails has changed nothing. Whether it will is decided when
	// it ends.
	Fail    int    `json:"fail,omitempty"`
	Failure string `json:"failure,omitempty"`
	// Refuse is what the next changes are refused with; empty for none.
	Refuse string `json:"refuse,omitempty"`
	// Unhealthy is how long the cluster is not healthy after a change.
	Unhealthy time.Duration `json:"unhealthy,omitempty"`
	// UnhealthyUntil is when it is healthy again.
	UnhealthyUntil time.Time `json:"unhealthyUntil,omitzero"`
	// Operation is the last change that was begun; nil for none.
	Operation *Operation `json:"operation,omitempty"`
	// Busy is what another operator does to the cluster, until BusyUntil or, where that is
	// zero, for ever; empty for nothing.
	Busy      string    `json:"busy,omitempty"`
	BusyUntil time.Time `json:"busyUntil,omitzero"`
	// Begun are the changes that were begun, in order.
	Begun []Operation `json:"begun,omitempty"`
}

// Operation is an operation with its times.
type Operation struct {
	upgrade.Operation
	Began time.Time `json:"began,omitzero"`
	// Ends is when it ends or ended; zero for one that does not.
	Ends time.Time `json:"ends,omitzero"`
}

// clone returns a copy that shares nothing with w.
func (w *State) clone() State {
	out := *w
	out.Versions = slices.Clone(w.Versions)
	out.Epochs = maps.Clone(w.Epochs)
	out.Regions = make(map[string]*Region, len(w.Regions))
	for name, r := range w.Regions {
		copied := *r
		copied.Images = map[string][]string{}
		for family, images := range r.Images {
			copied.Images[family] = slices.Clone(images)
		}
		out.Regions[name] = &copied
	}
	out.Clusters = make(map[string]*Cluster, len(w.Clusters))
	for name, c := range w.Clusters {
		out.Clusters[name] = c.clone()
	}
	return out
}

func (c *Cluster) clone() *Cluster {
	out := *c
	out.Pools = clonePools(c.Pools)
	out.Begun = make([]Operation, 0, len(c.Begun))
	for i := range c.Begun {
		out.Begun = append(out.Begun, *c.Begun[i].clone())
	}
	if c.Operation != nil {
		out.Operation = c.Operation.clone()
	}
	return &out
}

func clonePools(pools []upgrade.Pool) []upgrade.Pool {
	out := slices.Clone(pools)
	for i := range out {
		out[i].Images = slices.Clone(out[i].Images)
	}
	return out
}

func (o *Operation) clone() *Operation {
	out := *o
	out.Change.Goal.Pools = slices.Clone(o.Change.Goal.Pools)
	return &out
}

// settle brings a cluster to now: what has had its time has ended.
func (c *Cluster) settle(now time.Time) {
	if !c.BusyUntil.IsZero() && !now.Before(c.BusyUntil) {
		c.Busy, c.BusyUntil = "", time.Time{}
	}
	o := c.Operation
	if o == nil || o.State != upgrade.Running || o.Ends.IsZero() || now.Before(o.Ends) {
		return
	}
	if c.Fail != 0 {
		c.Fail = max(c.Fail-1, -1)
		o.State, o.Message = upgrade.Failed, c.failure()
		return
	}
	o.State, o.Message = upgrade.Succeeded, ""
	c.carryOut(o.Change)
	c.UnhealthyUntil = o.Ends.Add(c.Unhealthy)
}

func (c *Cluster) failure() string {
	if c.Failure == "" {
		return "the upgrade failed"
	}
	return c.Failure
}

// carryOut makes of the cluster what a change wants.
func (c *Cluster) carryOut(change upgrade.Change) {
	switch change.Part {
	case upgrade.ControlPlane:
		c.ControlPlane = change.Goal.ControlPlane
	case upgrade.Nodes:
		for _, goal := range change.Goal.Pools {
			i := slices.IndexFunc(c.Pools, func(p upgrade.Pool) bool { return p.Name == goal.Name })
			if i < 0 {
				continue
			}
			set(&c.Pools[i].Version, goal.Version)
			set(&c.Pools[i].Image, goal.Image)
		}
	}
}

func set(s *string, to string) {
	if to != "" {
		*s = to
	}
}

// changing reports whether a change is under way.
func (c *Cluster) changing() bool {
	return c.Operation != nil && c.Operation.State == upgrade.Running
}

// next is when the cluster changes by itself after now; zero when it does not.
func (c *Cluster) next(now time.Time) (next time.Time) {
	for _, at := range []time.Time{c.ends(), c.BusyUntil, c.UnhealthyUntil} {
		if at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// ends is when the change ends that is under way; zero for none.
func (c *Cluster) ends() time.Time {
	if !c.changing() {
		return time.Time{}
	}
	return c.Operation.Ends
}
