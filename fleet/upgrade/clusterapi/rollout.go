package clusterapi

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// rolling describes the rest of the rollout of an object; "" if it is complete. Whether the
// machines work is a separate question: see ailing.
func (n *nodes) rolling(l layout) string {
	switch {
	case n.object == nil:
		return n.says("is not made yet")
	case n.leaving():
		return n.says("is being deleted")
	case !n.observed():
		return n.says("has a change that was not observed yet")
	}
	if t := l.tally(n.object); t.upToDate != t.all {
		return n.says("has %d of %d machines up to date", t.upToDate, t.all)
	}
	if v := text(n.object, "status", "version"); n.kind == controlKind && !sameVersion(v, n.version) {
		return n.says("has version %s, and goes to %s", shown(v), shown(n.version))
	}
	for _, m := range n.machines {
		if what := m.rolling(n.version); what != "" {
			return n.says("%s", what)
		}
	}
	return ""
}

// rolling returns why a machine is not yet in its desired state, or "".
func (m machine) rolling(want string) string {
	switch {
	case !sameVersion(m.version, want):
		return fmt.Sprintf("machine %s has version %s, not %s", m.name, shown(m.version), shown(want))
	case m.kubelet != "" && !sameRelease(m.kubelet, want):
		return fmt.Sprintf("machine %s runs kubelet %s, not %s", m.name, shown(m.kubelet), shown(want))
	case m.outdated && !m.leaving:
		return fmt.Sprintf("machine %s is not up to date", m.name)
	}
	return ""
}

// ailing returns why the machines do not work; "" if they do.
func (n *nodes) ailing(l layout) string {
	if n.object == nil || !n.observed() {
		return n.says("was not observed yet")
	}
	for _, m := range n.machines {
		switch {
		case m.failure != "":
			return n.says("machine %s failed: %s", m.name, m.failure)
		case m.kubelet == "" && !m.leaving:
			return n.says("machine %s has no node", m.name)
		}
	}
	t := l.tally(n.object)
	if t.ready < t.wanted || t.available < t.wanted {
		return n.says("has %d of %d machines ready, %d available", t.ready, t.wanted, t.available)
	}
	if t.all < t.wanted || int64(len(n.machines)) < t.wanted {
		return n.says("has %d of %d machines", len(n.machines), t.wanted)
	}
	return ""
}

// failed describes a machine that Cluster API abandoned and no controller is replacing; "" if there
// is none.
func (n *nodes) failed() string {
	for _, m := range n.machines {
		if m.failure != "" && !m.leaving && !m.remedied {
			return n.says("machine %s failed: %s", m.name, m.failure)
		}
	}
	return ""
}

// observed reports whether the status describes the current generation of the object.
func (n *nodes) observed() bool {
	return count(n.object, "status", "observedGeneration") >= max(count(n.object, "metadata", "generation"), 1)
}

func (n *nodes) leaving() bool { return text(n.object, "metadata", "deletionTimestamp") != "" }

// oldest returns the version of the oldest machine. A MachineDeployment without machines returns
// its desired version.
func (n *nodes) oldest() string {
	lowest := ""
	for _, m := range n.machines {
		v := m.version
		if m.kubelet != "" && !sameRelease(m.kubelet, v) {
			v = m.kubelet
		}
		lowest = lower(lowest, v)
	}
	if n.kind == controlKind {
		lowest = lower(lowest, text(n.object, "status", "version"))
	}
	if lowest == "" && n.kind == deploymentKind {
		return n.version
	}
	return lowest
}

// lower returns the lower of two versions. A text that is not a version counts as missing.
func lower(a, b string) string {
	va, errA := version.ParseSemantic(a)
	vb, errB := version.ParseSemantic(b)
	switch {
	case errA != nil && errB != nil:
		return ""
	case errA != nil:
		return b
	case errB != nil || !vb.LessThan(va):
		return a
	}
	return b
}

// says starts a sentence about the nodes.
func (n *nodes) says(format string, args ...any) string {
	who := "node pool " + shown(n.name)
	if n.kind == controlKind {
		who = "the control plane"
	}
	return who + " " + fmt.Sprintf(format, args...)
}

// shown returns the part of a read text that may be shown to people.
func shown(s string) string {
	if s == "" {
		return "none"
	}
	return quoted(tree{"": s}, "")
}

// pending describes the state of the whole cluster that delays a change, such as a pause or the
// rollout of the topology to the objects that create machines; "" if there is none.
func (s *seen) pending() string {
	_, marked := branch(s.cluster, "metadata", "annotations")[pausedAnnotation]
	switch {
	case text(s.cluster, "metadata", "deletionTimestamp") != "":
		return "the cluster is being deleted"
	case marked || truth(s.cluster, "spec", "paused"):
		return "the cluster is paused: Cluster API does nothing to it"
	case s.topology == nil:
		return ""
	}
	return s.unreconciled()
}

// unreconciled describes the part of a topology that has not been rolled out yet; "" if there is
// none.
func (s *seen) unreconciled() string {
	want := text(s.topology, "version")
	if !sameVersion(s.control.version, want) {
		return fmt.Sprintf("the control plane is to get version %s of the topology", shown(want))
	}
	held := false
	for _, pool := range s.pools {
		behind := !sameVersion(pool.version, want)
		if behind && !pool.deferred && pool.object != nil {
			return pool.says("is to get version %s of the topology", shown(want))
		}
		held = held || behind && pool.deferred
	}
	for _, n := range s.all() {
		if image := s.overrides[n.name]; image != "" && n.object != nil && image != n.image {
			return n.says("is to get image %s of the topology", shown(image))
		}
	}
	c := s.layout.condition(s.cluster, "TopologyReconciled")
	switch reason := text(c, "reason"); {
	case c == nil || !fresh(c, s.cluster):
		return "Cluster API has not observed the topology yet"
	case text(c, "status") == "True":
		return ""
	case held && (reason == "MachineDeploymentsUpgradeDeferred" || reason == "MachineDeploymentsUpgradePending"):
		return ""
	}
	return "the topology is not reconciled: " + shown(quoted(c, "message"))
}
