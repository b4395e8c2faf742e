package upgrade

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/backend"
)

// maxMessage bounds what is told of a cluster, in bytes.
const maxMessage = 1024

// view is what an updater sees of a cluster.
type view struct {
	a   backend.Assignment
	c   Cluster
	aim aim
	// ours reports whether the last change of the cluster is one of the run. What was resolved
	// for the cluster when it began is the aim then.
	ours bool
	// missing are the parts that are not where they are to be.
	missing []Part
}

// id identifies the change of a part in this attempt.
func (v *view) id(p Part) string {
	return v.a.RunUID + "." + strconv.Itoa(v.a.Attempt) + "." + string(p)
}

// state is that of the run's last change; empty for none.
func (v *view) state() OperationState {
	if !v.ours {
		return ""
	}
	return v.c.Operation.State
}

// other says what is being done to the cluster that is not the run's; empty for nothing.
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

// settled reports on a cluster that nothing is to be begun on, because it is there, is
// on its way, or has failed; done is false for others.
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

// ended reports whether the last operation is one of this attempt, where it has ended.
func (v *view) ended() bool {
	id := v.c.Operation.Change.ID
	return id == v.id(ControlPlane) || id == v.id(Nodes)
}

// there reports on a cluster that is where it is to be.
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

// refusal is why nothing may be begun; nil where something may.
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

// pending says what the cluster is on its way to.
func (v *view) pending() string {
	if len(v.missing) == 0 {
		return clip("on its way to " + v.where())
	}
	return clip("on its way to " + v.where() + ": " + v.gap())
}

// gap says what is not where it is to be.
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

// where says where the cluster is to be.
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

// errorf says which cluster an error is about.
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
