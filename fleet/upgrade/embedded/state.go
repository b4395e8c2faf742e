package embedded

import (
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/fleet/upgrade"
)

// State is the whole state of a provider.
type State struct {
	// Regions are the regions of the clusters, by name.
	Regions map[string]*Region `json:"regions,omitempty"`
	// Versions are the Kubernetes versions that all clusters are offered; nil if every version is
	// offered.
	Versions []string `json:"versions"`
	// Clusters are the clusters by name.
	Clusters map[string]*Cluster `json:"clusters,omitempty"`
	// Takes is the duration of a change of a part of a cluster, unless the cluster has its own.
	Takes metav1.Duration `json:"takes,omitzero"`
	// Epochs are the greatest epochs of changes, by placement.
	Epochs map[string]int64 `json:"epochs,omitempty"`
}

// Region is a region of clusters.
type Region struct {
	// Images are the images that node pools in the region are offered, newest first, by family.
	Images map[string][]string `json:"images,omitempty"`
	// Unavailable makes every call for a cluster of the region fail for now. Changes that have begun
	// continue.
	Unavailable bool `json:"unavailable,omitempty"`
}

// Cluster is a cluster of a [State].
type Cluster struct {
	// UID is compared with the caller's UID if both are set.
	UID    string `json:"uid,omitempty"`
	Region string `json:"region,omitempty"`
	// ControlPlane and Pools are the current state of the cluster. Images of pools are ignored,
	// because the region has them.
	ControlPlane string         `json:"controlPlane"`
	Pools        []upgrade.Pool `json:"pools,omitempty"`
	// Takes is the duration of a change of a part; 0 means State.Takes.
	Takes metav1.Duration `json:"takes,omitzero"`
	// Unavailable makes every call for the cluster fail for now, see Region.Unavailable.
	Unavailable bool `json:"unavailable,omitempty"`
	// Fail is the number of next changes that fail, -1 for all; Failure is their message. A change
	// that fails has changed nothing. Whether a change fails is decided when it ends.
	Fail    int    `json:"fail,omitempty"`
	Failure string `json:"failure,omitempty"`
	// Refuse is the message that the next changes are refused with; empty for none.
	Refuse string `json:"refuse,omitempty"`
	// Unhealthy is the time that the cluster is unhealthy after a change.
	Unhealthy metav1.Duration `json:"unhealthy,omitzero"`
	// UnhealthyUntil is when the cluster is healthy again.
	UnhealthyUntil time.Time `json:"unhealthyUntil,omitzero"`
	// Operation is the last change that was begun; nil for none.
	Operation *Operation `json:"operation,omitempty"`
	// Busy describes the operation of another operator on the cluster, which lasts until BusyUntil, or
	// for ever if that is zero; empty if there is none.
	Busy      string    `json:"busy,omitempty"`
	BusyUntil time.Time `json:"busyUntil,omitzero"`
	// Begun are all changes that were begun, in order.
	Begun []Operation `json:"begun,omitempty"`
}

// Operation is an operation with its times.
type Operation struct {
	upgrade.Operation
	Began time.Time `json:"began,omitzero"`
	// Ends is when the operation ends or ended; zero if it does not end.
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

// settle brings a cluster to the current time, and ends operations whose time is over.
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
	c.UnhealthyUntil = o.Ends.Add(c.Unhealthy.Duration)
}

func (c *Cluster) failure() string {
	if c.Failure == "" {
		return "the upgrade failed"
	}
	return c.Failure
}

// carryOut changes the cluster as a change demands.
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

// next returns when the cluster changes by itself after now; zero if it does not.
func (c *Cluster) next(now time.Time) (next time.Time) {
	for _, at := range []time.Time{c.ends(), c.BusyUntil, c.UnhealthyUntil} {
		if at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// ends returns when the running change ends; zero if none runs.
func (c *Cluster) ends() time.Time {
	if !c.changing() {
		return time.Time{}
	}
	return c.Operation.Ends
}
