package clusterapi_test

import (
	"cmp"
	"fmt"
	"slices"
)

// settle steps until nothing moves any more.
func (c *capi) settle(cluster string) {
	c.t.Helper()
	for range 100 {
		if !c.step(cluster) {
			return
		}
	}
	c.t.Fatal("Cluster API, as it is played here, does not come to an end")
}

// step moves a cluster a little, and reports whether anything moved.
func (c *capi) step(cluster string) bool {
	o := c.get("Cluster", cluster)
	control, pools := c.get("KubeadmControlPlane", cluster+"-cp"), c.list("MachineDeployment", cluster)
	machines := c.list("Machine", cluster)
	moved := false
	for _, owner := range append([]tree{control}, pools...) {
		moved = c.roll(cluster, owner, machines) || moved
	}
	if at(o, "spec", "topology") != nil {
		return c.reconcile(o, control, pools, !moved) || moved
	}
	return moved
}

// reconcile rolls out a topology to its objects one after the other, and writes the condition.
func (c *capi) reconcile(o, control tree, pools []tree, stable bool) bool {
	version, held, next := str(o, "spec", "topology", "version"), "", ""
	moved := c.bring(o, control, version, at(o, "spec", "topology", "controlPlane"))
	for _, p := range at(o, "spec", "topology", "workers", "machineDeployments").([]any) {
		p := p.(tree)
		d := pools[slices.IndexFunc(pools, func(d tree) bool {
			return str(d, "metadata", "labels", "topology.cluster.x-k8s.io/deployment-name") == p["name"]
		})]
		marks, _ := at(p, "metadata", "annotations").(tree)
		_, deferred := marks["topology.cluster.x-k8s.io/defer-upgrade"]
		want := version
		if versionIn(d) != version && (deferred || !stable || moved) {
			want, next = versionIn(d), "MachineDeploymentsUpgradePending"
			if deferred {
				held = p["name"].(string)
			}
		}
		if c.bring(o, d, want, p) {
			moved, stable = true, false
		}
	}
	return c.condition(o, cmp.Or(next, held)) || moved
}

// bring brings an object to the state that the topology wants.
func (c *capi) bring(cluster, o tree, version string, topology any) bool {
	spec, changed := tree{}, false
	if versionIn(o) != version {
		spec["version"], changed = version, true
	}
	for _, v := range overrides(topology) {
		image := v.(tree)["value"].(string)
		name := c.templateOf(o)
		if str(c.get("BoxMachineTemplate", name), "spec", "template", "spec", "image") == image {
			continue
		}
		c.made++
		name = fmt.Sprintf("%s-t%d", nameOf(o), c.made)
		c.create("BoxMachineTemplate", name, boxes(image), nil)
		changed = true
		if o["kind"] == "MachineDeployment" {
			spec["infrastructureRef"] = c.templateRef(name)
		} else {
			spec["machineTemplate"] = c.machineTemplate(name)
		}
	}
	if !changed {
		return false
	}
	if o["kind"] == "MachineDeployment" {
		spec = tree{"template": tree{"spec": spec}}
	}
	c.patch(o["kind"].(string), nameOf(o), tree{"spec": spec})
	return true
}

func overrides(topology any) []any {
	t, _ := topology.(tree)
	list, _ := at(t, "variables", "overrides").([]any)
	return list
}

// condition writes whether the topology is reconciled.
func (c *capi) condition(o tree, reason string) bool {
	status := map[bool]string{true: "True", false: "False"}[reason == ""]
	where := []string{"status", "conditions"}
	if c.version == "v1beta1" {
		where = []string{"status", "v1beta2", "conditions"}
	}
	generation := num(o, "metadata", "generation")
	list, _ := at(o, where...).([]any)
	for _, e := range list {
		if e := e.(tree); e["status"] == status && num(e, "observedGeneration") == generation {
			return false
		}
	}
	value := tree{"conditions": []any{tree{
		"type": "TopologyReconciled", "status": status, "reason": cmp.Or(reason, "ReconcileSucceeded"), "message": "held back",
		"observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z",
	}}}
	if c.version == "v1beta1" {
		value = tree{"v1beta2": value}
	}
	c.status("Cluster", nameOf(o), value)
	return true
}
