package health

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// verdict is the health of an object.
type verdict struct {
	ready, failed bool
	message       string
}

func ready(message string) *verdict { return &verdict{ready: true, message: message} }

func waits(format string, args ...any) *verdict {
	return &verdict{message: fmt.Sprintf(format, args...)}
}

func fails(message string) *verdict { return &verdict{failed: true, message: message} }

// kindRule is how the objects of a kind are judged otherwise than by kstatus and by known
// conditions.
type kindRule struct {
	// judge returns the verdict if kstatus would be wrong, or nil. It is called if the status is of
	// the generation.
	judge func(*reading) *verdict
	// as changes the object that kstatus judges.
	as func(*reading)
	// needs are types of conditions that must be True. Without the condition the controller has not
	// seen the object.
	needs []string
	// after returns a verdict against an otherwise ready object, or nil.
	after func(*reading) *verdict
}

// kinds are the rules by kind and group.
var kinds = map[string]kindRule{ //nolint:gochecknoglobals // a constant table
	"DaemonSet.apps":                         {as: onDeleteDaemonSet},
	"Deployment.apps":                        {judge: pausedDeployment},
	"StatefulSet.apps":                       {as: onDeleteStatefulSet},
	"ReplicationController":                  {as: replicationController},
	"PersistentVolume":                       {judge: failedVolume},
	"Pod":                                    {judge: failedPod},
	"Job.batch":                              {judge: suspendedJob},
	"Service":                                {after: awaitsAddress},
	"APIService.apiregistration.k8s.io":      {needs: []string{"Available"}},
	"Gateway.gateway.networking.k8s.io":      {needs: []string{"Accepted", "Programmed"}},
	"GatewayClass.gateway.networking.k8s.io": {needs: []string{"Accepted"}},
	"HTTPRoute.gateway.networking.k8s.io":    {after: unattachedRoute},
	"GRPCRoute.gateway.networking.k8s.io":    {after: unattachedRoute},
	"TLSRoute.gateway.networking.k8s.io":     {after: unattachedRoute},
	"TCPRoute.gateway.networking.k8s.io":     {after: unattachedRoute},
	"UDPRoute.gateway.networking.k8s.io":     {after: unattachedRoute},
	"VirtualMachine.kubevirt.io":             {judge: stoppedMachine},
}

// ruleOf returns the rule of an object, empty for most.
func ruleOf(r *reading) kindRule {
	return kinds[r.obj.GroupVersionKind().GroupKind().String()]
}

// pauses are annotations that pause an object for the controllers of a group and of its subgroups.
// With an empty value the annotation alone pauses.
var pauses = map[string]struct{ group, value string }{ //nolint:gochecknoglobals // a constant table
	"autoscaling.keda.sh/paused":          {"keda.sh", "true"},
	"autoscaling.keda.sh/paused-replicas": {"keda.sh", ""},
	"cluster.x-k8s.io/paused":             {"cluster.x-k8s.io", ""},
	"eck.k8s.elastic.co/managed":          {"k8s.elastic.co", "false"},
	"strimzi.io/pause-reconciliation":     {"strimzi.io", "true"},
}

// paused returns what tells the controller of the object not to act on it: its spec, an annotation,
// or for Crossplane, whose kinds are in any group, the controller's own condition; "" if nothing
// does. Such an object is ready, whatever else its status says.
func (r *reading) paused() string {
	kind, annotations := r.obj.GroupVersionKind().GroupKind(), r.obj.GetAnnotations()
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		p, known := pauses[name]
		if known && strings.HasSuffix("."+kind.Group, "."+p.group) && (p.value == "" || p.value == annotations[name]) {
			return "its annotation " + name
		}
	}
	if c := r.find("Synced"); c != nil && c.reason == "ReconcilePaused" {
		return "its annotation crossplane.io/paused"
	}
	suspended := false
	switch {
	case strings.HasSuffix(kind.Group, ".toolkit.fluxcd.io"):
		suspended = isSuspended(r)
	case kind.Group == "cluster.x-k8s.io", kind.Group == "fleet.cattle.io", kind.String() == "Rollout.argoproj.io":
		suspended = r.spec["paused"] == true
	}
	if suspended {
		return "its spec"
	}
	return ""
}

// known are types of conditions with the same meaning in many kinds, except kstatus' own: Ready,
// Reconciling and Stalled.
var known = map[string]struct { //nolint:gochecknoglobals // a constant table
	// positive conditions must be True; others must not be.
	positive bool
	// final conditions say that waiting does not help: a negative condition if it is True, and a
	// positive one if it is False. An Unknown positive condition that is final does not count
	// against the object.
	final bool
}{
	"Accepted": {positive: true}, "Available": {positive: true}, "Established": {positive: true}, "Healthy": {positive: true},
	"Programmed": {positive: true}, "Reconciled": {positive: true}, "ResolvedRefs": {positive: true}, "Synced": {positive: true},
	"Succeeded": {positive: true, final: true},
	"Degraded":  {}, "Failure": {}, "NotReady": {},
	"Failed": {final: true},
}

// byConditions judges an object by known conditions, nil if none of them is against it. Ready is a
// summary: if it is True, only NotReady and Failed contradict it.
func (r *reading) byConditions(conditions, stale []condition) *verdict {
	summary := findIn(conditions, "Ready")
	for i := range conditions {
		c := &conditions[i]
		k, isKnown := known[c.kind]
		if !isKnown || summary != nil && summary.isTrue() && c.kind != "NotReady" && c.kind != "Failed" {
			continue
		}
		switch {
		case k.final && (k.positive && c.status == "False" || !k.positive && c.isTrue()):
			return fails(c.says())
		case !k.final && k.positive != c.isTrue():
			return waits("%s", c.says())
		}
	}
	if c := needed(conditions, stale); c != nil {
		return waits("%s", r.old(c))
	}
	return nil
}

// needed returns a stale condition without which nothing proves that the object is healthy, or nil:
// Ready or, if there is no Ready, a positive one.
func needed(conditions, stale []condition) *condition {
	if findIn(conditions, "Ready") != nil {
		return nil
	}
	for i := range stale {
		c := &stale[i]
		if k := known[c.kind]; c.kind == "Ready" || k.positive && !k.final && findIn(conditions, c.kind) == nil {
			return c
		}
	}
	return nil
}

// nested judges an object by the conditions that its status has of parts of it, by the conventions
// of the Gateway API: listeners of a Gateway, parents of a route, ancestors of a policy.
func (r *reading) nested() *verdict {
	for p := range r.parts {
		if v := r.byConditions(p.conditions, p.stale); v != nil {
			v.message = p.at + ": " + v.message
			return v
		}
	}
	return nil
}

// partLists are the fields of a status that list parts with conditions of their own.
var partLists = []string{"listeners", "parents", "ancestors"} //nolint:gochecknoglobals // a constant list

// part is a part of an object with conditions of its own; stale ones are of an older generation.
type part struct {
	at                string
	conditions, stale []condition
}

// parts yields the parts of an object.
func (r *reading) parts(yield func(part) bool) {
	for _, field := range partLists {
		list, _ := r.status[field].([]any)
		for i, entry := range list {
			m, _ := entry.(map[string]any)
			if !r.isPart(field, m) {
				continue
			}
			p := part{at: fmt.Sprintf("status.%s[%d]", field, i)}
			for _, c := range r.conditionsIn(m["conditions"], p.at+".conditions") {
				if r.isOld(&c) {
					p.stale = append(p.stale, c)
				} else {
					p.conditions = append(p.conditions, c)
				}
			}
			if !yield(p) {
				return
			}
		}
	}
}

// isPart reports whether an entry of a list in the status has conditions by the conventions of the
// Gateway API.
func (r *reading) isPart(field string, entry map[string]any) bool {
	if field == "listeners" {
		return r.obj.GroupVersionKind().Group == "gateway.networking.k8s.io"
	}
	_, controlled := entry["controllerName"].(string)
	return controlled
}

// onDeleteDaemonSet: its controller replaces no Pod by itself, so that Pods of older templates
// count.
func onDeleteDaemonSet(r *reading) {
	if r.status != nil && updateStrategy(r) == "OnDelete" {
		r.status["updatedNumberScheduled"] = r.status["desiredNumberScheduled"]
	}
}

// onDeleteStatefulSet: its controller replaces no Pod by itself, so that Pods of older revisions
// count. That is the partition above all of them.
func onDeleteStatefulSet(r *reading) {
	if updateStrategy(r) != "OnDelete" {
		return
	}
	spec := maps.Clone(r.spec)
	spec["updateStrategy"] = map[string]any{
		"type": "RollingUpdate", "rollingUpdate": map[string]any{"partition": intIn(r.spec, "replicas", 1)},
	}
	r.obj.Object["spec"] = spec
}

func updateStrategy(r *reading) string {
	strategy, _ := r.spec["updateStrategy"].(map[string]any)
	kind, _ := strategy["type"].(string)
	return kind
}

// replicationController: kstatus does not know it, and knows ReplicaSets, which have the same
// status.
func replicationController(r *reading) {
	r.obj.Object["apiVersion"], r.obj.Object["kind"] = "apps/v1", "ReplicaSet"
}

// pausedDeployment: its controller rolls no template out. It is ready if the controller has seen it
// and enough Pods of any template are available.
func pausedDeployment(r *reading) *verdict {
	if r.spec["paused"] != true {
		return nil
	}
	want, have := intIn(r.spec, "replicas", 1), intIn(r.status, "availableReplicas", 0)
	switch {
	case r.observed == nil:
		return waits("it is paused, and its controller has not seen it")
	case have < want:
		return waits("it is paused, and %d of %d replicas are available", have, want)
	}
	return ready(fmt.Sprintf("it is paused: %d of %d replicas are of its template", intIn(r.status, "updatedReplicas", 0), want))
}

// failedPod: kstatus takes a Pod for current that has ended, whatever it ended with.
func failedPod(r *reading) *verdict { return r.failedPhase("the Pod has failed") }

// failedVolume: kstatus takes every volume for ready. A released volume is Failed if its storage
// could not be deleted or cleaned, and no claim can use it.
func failedVolume(r *reading) *verdict { return r.failedPhase("the volume has failed") }

// failedPhase returns a failure that begins with what if the phase is Failed.
func (r *reading) failedPhase(what string) *verdict {
	if r.status["phase"] != "Failed" {
		return nil
	}
	out := what
	for _, field := range []string{"reason", "message"} {
		if text, _ := r.status[field].(string); text != "" {
			out += ": " + text //nolint:modernize // the loop adds at most two texts
		}
	}
	return fails(out)
}

// suspendedJob: it must not start yet.
func suspendedJob(r *reading) *verdict {
	if failed := r.find("Failed"); isSuspended(r) && (failed == nil || !failed.isTrue()) {
		return ready("")
	}
	return nil
}

func isSuspended(r *reading) bool { return r.spec["suspend"] == true }

// awaitsAddress: a Service of type LoadBalancer cannot be reached before it has an address.
func awaitsAddress(r *reading) *verdict {
	if r.spec["type"] != "LoadBalancer" {
		return nil
	}
	balancer, _ := r.status["loadBalancer"].(map[string]any)
	ingress, _ := balancer["ingress"].([]any)
	if slices.ContainsFunc(ingress, func(i any) bool {
		at, _ := i.(map[string]any)
		ip, _ := at["ip"].(string)
		name, _ := at["hostname"].(string)
		return ip != "" || name != ""
	}) {
		return nil
	}
	return waits("its load balancer has no address yet")
}

// unattachedRoute: a route that names parents does nothing before one of them has taken it.
func unattachedRoute(r *reading) *verdict {
	refs, _ := r.spec["parentRefs"].([]any)
	parents, _ := r.status["parents"].([]any)
	if len(refs) > 0 && len(parents) == 0 {
		return waits("no controller has taken it: status.parents is empty")
	}
	return nil
}

// stoppedMachine: a virtual machine that must not run is ready once it is stopped.
func stoppedMachine(r *reading) *verdict {
	strategy, _ := r.spec["runStrategy"].(string)
	running, _ := r.spec["running"].(bool)
	switch {
	case running || strategy == "Always" || strategy == "" && r.spec["running"] == nil:
		return nil
	case r.status["printableStatus"] == "Stopped":
		return ready("it is stopped, as its spec says")
	case strategy == "Halted" || strategy == "":
		now, _ := r.status["printableStatus"].(string)
		return waits("it must be stopped, and its status is %q", now)
	}
	return nil
}
