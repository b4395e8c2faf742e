package upgrade

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/backend"
)

// maxMessage bounds a message about a cluster, in bytes.
const maxMessage = 1024

// view is an updater's view of a cluster.
type view struct {
	a   backend.Assignment
	c   Cluster
	aim aim
	// ours reports whether the last change of the cluster belongs to the run. Then aim is the goal
	// that was resolved when that change began.
	ours bool
	// missing are the parts that differ from the goal.
	missing []Part
}

// id returns the ID of the change of a part in this attempt.
func (v *view) id(p Part) string {
	return v.a.RunUID + "." + strconv.Itoa(v.a.Attempt) + "." + string(p)
}

// state returns the state of the run's last change, or "" if there is none.
func (v *view) state() OperationState {
	if !v.ours {
		return ""
	}
	return v.c.Operation.State
}

// other describes an operation on the cluster that does not belong to the run; "" if there is none.
func (v *view) other() string {
	o := v.c.Operation
	switch {
	case v.c.Busy != "":
		return clip(v.c.Busy)
	case o != nil && o.State == Running && !v.ours:
		return clip("change " + o.Change.ID + " of placement " + o.Change.Placement)
	}
	return ""
}

// settled returns the proof of a cluster that needs no new change, because it is at the goal, is
// being upgraded, or has failed. For other clusters done is false.
func (v *view) settled() (r backend.Proof, done bool) {
	switch {
	case v.state() == Running:
		return backend.Proof{Sent: true, Message: v.pending()}, true
	case v.state() == Failed && v.ended():
		return backend.Proof{Sent: true, Failed: true, Message: v.failure()}, true
	case v.aim.without != "" || len(v.aim.problems) > 0:
		return backend.Proof{}, false
	case len(v.missing) == 0:
		return v.there(), true
	case v.ours && v.ended() && v.c.Operation.Change.Part == v.missing[0]:
		return backend.Proof{Sent: true, Failed: true, Message: clip("the upgrade ended, and still " + v.gap())}, true
	}
	return backend.Proof{}, false
}

// ended reports whether the last operation belongs to this attempt. Callers use it for operations
// that have ended.
func (v *view) ended() bool {
	id := v.c.Operation.Change.ID
	return id == v.id(ControlPlane) || id == v.id(Nodes)
}

// there returns the proof of a cluster that is at the goal.
func (v *view) there() backend.Proof {
	r := backend.Proof{
		Sent: v.ours, Applied: true, Unchanged: !v.ours, Revision: v.a.Revision, Current: true,
		Healthy: v.c.Healthy, Message: v.where(),
	}
	switch other := v.other(); {
	case other != "":
		r.Healthy, r.Message = false, clip("another client works on it: "+other)
	case !v.ours:
		r.Skipped, r.Message = true, clip("already there: "+v.where())
	case !v.c.Healthy:
		r.Message = clip("not healthy: " + v.c.Message)
	}
	return r
}

// refusal returns why no change may begin, or nil if a change may begin.
func (v *view) refusal() error {
	problems := v.aim.of(v.a.Cluster.Name)
	var lasting []Problem
	for _, p := range problems {
		if !p.Passing {
			lasting = append(lasting, p)
		}
	}
	switch {
	case len(lasting) > 0:
		return &RefusedError{lasting}
	case len(problems) > 0:
		return errors.New(problems[0].String())
	}
	return nil
}

func (v *view) failure() string {
	if v.c.Operation.Message == "" {
		return "the upgrade failed"
	}
	return clip("the upgrade failed: " + v.c.Operation.Message)
}

// pending describes the goal that the cluster is being upgraded to, and the gap.
func (v *view) pending() string {
	if len(v.missing) == 0 {
		return clip("on its way to " + v.where())
	}
	return clip("on its way to " + v.where() + ": " + v.gap())
}

// gap describes the part that differs from the goal.
func (v *view) gap() string {
	if v.missing[0] == ControlPlane {
		return "the control plane has " + v.c.ControlPlane
	}
	var pools []string
	for i := range v.c.Pools {
		if p := &v.c.Pools[i]; !v.aim.has(p) {
			pools = append(pools, strings.TrimSpace(poolName(p)+" has "+p.Version+" "+p.Image))
		}
	}
	return brief(pools)
}

// where describes the goal of the cluster.
func (v *view) where() string {
	var parts []string
	if v.aim.ControlPlane != "" {
		parts = append(parts, "control plane "+v.aim.ControlPlane)
	}
	for _, p := range v.aim.Pools {
		if p.Version != "" || p.Image != "" {
			parts = append(parts, "node pool "+p.Name+" "+strings.TrimSpace(p.Version+" "+p.Image))
		}
	}
	if len(parts) == 0 {
		return "what it has"
	}
	return brief(parts)
}

// errorf adds the name of the cluster to an error.
func (v *view) errorf(format string, args ...any) error {
	return fmt.Errorf("cluster %s: %w", v.a.Cluster.Name, fmt.Errorf(format, args...))
}

// clip bounds a message.
func clip(s string) string {
	if len(s) <= maxMessage {
		return strings.ToValidUTF8(s, "?")
	}
	return strings.ToValidUTF8(s[:maxMessage], "")
}
