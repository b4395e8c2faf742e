package clusterapi_test

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// capi plays Cluster API for the clusters of a namespace: each step moves every object a little, as
// its controllers do.
type capi struct {
	*api
	t  *testing.T
	ns string
	// fails are the pools whose machines never get a node.
	fails map[string]bool
	made  int
}

func newCAPI(t *testing.T, version string) *capi {
	a := serve(t, version)
	return &capi{api: a, t: t, ns: a.server.Namespace(t), fails: map[string]bool{}}
}

func (c *capi) send(method, kind, name string, body any) tree {
	c.t.Helper()
	path := c.path(kind, c.ns)
	if name != "" {
		path += "/" + name
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for range 100 {
		out, err := c.call(c.t.Context(), method, path, body)
		if err == nil {
			return out
		}
		if !strings.Contains(err.Error(), "429 Too Many Requests") { // a server that begins to serve a kind may say so
			c.t.Fatal(err)
		}
		<-tick.C
	}
	c.t.Fatalf("%s %s: the server is too busy", method, path)
	return nil
}

func (c *capi) get(kind, name string) tree { return c.send(http.MethodGet, kind, name, nil) }

func (c *capi) patch(kind, name string, body tree) { c.send(http.MethodPatch, kind, name, body) }

func (c *capi) status(kind, name string, status tree) tree {
	return c.send(http.MethodPatch, kind, name+"/status", tree{"status": status})
}

func (c *capi) create(kind, name string, spec tree, labels tree) tree {
	version := map[string]string{
		"KubeadmControlPlane": "controlplane.cluster.x-k8s.io/" + c.version,
		"BoxMachineTemplate":  "infrastructure.cluster.x-k8s.io/v1alpha7",
	}[kind]
	return c.send(http.MethodPost, kind, "", tree{
		"apiVersion": cmp.Or(version, "cluster.x-k8s.io/"+c.version), "kind": kind,
		"metadata": tree{"name": name, "namespace": c.ns, "labels": labels}, "spec": spec,
	})
}

// list returns the objects of a kind that belong to a cluster, by name.
func (c *capi) list(kind, cluster string) []tree {
	var out []tree
	for _, e := range c.get(kind, "")["items"].([]any) {
		if o := e.(tree); at(o, "spec", "clusterName") == cluster {
			out = append(out, o)
		}
	}
	return out
}

// at returns a field, or nil if there is none.
func at(o tree, path ...string) any {
	v, _, _ := unstructured.NestedFieldCopy(o, path...)
	return v
}

func str(o tree, path ...string) string {
	s, _ := at(o, path...).(string)
	return s
}

func num(o tree, path ...string) int {
	f, _ := at(o, path...).(float64)
	return int(f)
}

func nameOf(o tree) string { return str(o, "metadata", "name") }

// ref returns a reference in the form of the version of Cluster API.
func (c *capi) ref(group, version, kind, name string) tree {
	if c.version == "v1beta1" {
		return tree{"apiVersion": group + "/" + version, "kind": kind, "name": name, "namespace": c.ns}
	}
	return tree{"apiGroup": group, "kind": kind, "name": name}
}

func (c *capi) templateRef(name string) tree {
	return c.ref("infrastructure.cluster.x-k8s.io", "v1alpha7", "BoxMachineTemplate", name)
}

// machineTemplate returns spec.machineTemplate of a control plane.
func (c *capi) machineTemplate(name string) tree {
	t := tree{"infrastructureRef": c.templateRef(name)}
	if c.version == "v1beta1" {
		return t
	}
	return tree{"spec": t}
}

// templateOf returns the name of the template of a control plane or a deployment.
func (c *capi) templateOf(o tree) string {
	switch {
	case o["kind"] == "MachineDeployment":
		return str(o, "spec", "template", "spec", "infrastructureRef", "name")
	case c.version == "v1beta1":
		return str(o, "spec", "machineTemplate", "infrastructureRef", "name")
	}
	return str(o, "spec", "machineTemplate", "spec", "infrastructureRef", "name")
}

func versionIn(o tree) string {
	if o["kind"] == "MachineDeployment" {
		return str(o, "spec", "template", "spec", "version")
	}
	return str(o, "spec", "version")
}

// cluster creates a cluster of v1.30.4 and waits until it is complete: a control plane of one
// machine, and pools of one machine each.
func (c *capi) cluster(name string, topology bool, pools ...string) {
	c.t.Helper()
	spec := tree{"controlPlaneRef": c.ref("controlplane.cluster.x-k8s.io", c.version, "KubeadmControlPlane", name+"-cp")}
	if topology {
		spec["topology"] = c.topology(pools)
	}
	c.create("Cluster", name, spec, tree{"topology.kubernetes.io/region": "eu"})
	c.create("BoxMachineTemplate", name+"-cp", boxes("box-30"), tree{"cluster.x-k8s.io/cluster-name": name})
	control := tree{"version": "v1.30.4", "replicas": 1, "machineTemplate": c.machineTemplate(name + "-cp")}
	if c.version == "v1beta1" {
		control["kubeadmConfigSpec"] = tree{}
	}
	c.create("KubeadmControlPlane", name+"-cp", control, nil)
	for _, pool := range pools {
		c.deployment(name, pool, topology)
	}
	c.complete(name)
}

// complete gives every control plane and pool of a new cluster its machine at once.
func (c *capi) complete(name string) {
	owners := append(c.list("MachineDeployment", name), c.get("KubeadmControlPlane", name+"-cp"))
	var machines []tree
	for _, o := range owners {
		m := c.machine(name, o)
		machines = append(machines, c.born(m))
	}
	for _, o := range owners {
		c.tell(o, machines)
	}
	if o := c.get("Cluster", name); at(o, "spec", "topology") != nil {
		c.condition(o, "")
	}
}

func boxes(image string) tree {
	return tree{"template": tree{"spec": tree{"size": "big", "image": image}}}
}

func (c *capi) topology(pools []string) tree {
	var list []any
	for _, p := range pools {
		list = append(list, tree{"class": "worker", "name": p, "replicas": 1})
	}
	t := tree{"version": "v1.30.4", "workers": tree{"machineDeployments": list}}
	if c.version == "v1beta1" {
		t["class"] = "boxes"
	} else {
		t["classRef"] = tree{"name": "boxes"}
	}
	return t
}

func (c *capi) deployment(cluster, pool string, topology bool) {
	name, labels := cluster+"-"+pool, tree{"cluster.x-k8s.io/cluster-name": cluster}
	if topology {
		name += "-x7k2p"
		labels["topology.cluster.x-k8s.io/deployment-name"] = pool
	}
	c.create("BoxMachineTemplate", name, boxes("box-30"), tree{"cluster.x-k8s.io/cluster-name": cluster})
	c.create("MachineDeployment", name, tree{
		"clusterName": cluster, "replicas": 1, "selector": tree{"matchLabels": tree{"pool": name}},
		"template": tree{
			"metadata": tree{"labels": tree{"pool": name}},
			"spec": tree{
				"clusterName": cluster, "version": "v1.30.4", "bootstrap": tree{"dataSecretName": "x"},
				"infrastructureRef": c.templateRef(name),
			},
		},
	}, labels)
}

// roll moves the machines of a control plane or a deployment one step: it creates a new machine,
// gives it a node, or removes an old machine.
func (c *capi) roll(cluster string, o tree, machines []tree) bool {
	fresh, old := c.sorted(o, machines)
	unborn := slices.DeleteFunc(slices.Clone(fresh), func(m tree) bool { return at(m, "status", "nodeInfo") != nil })
	moved := true
	switch {
	case c.fails[nameOf(o)] && len(unborn) > 0:
		moved = false
	case len(unborn) > 0:
		c.born(unborn[0])
	case num(o, "status", "observedGeneration") < num(o, "metadata", "generation"):
	case len(fresh) < num(o, "spec", "replicas"):
		c.machine(cluster, o)
	case len(old) > 0:
		c.send(http.MethodDelete, "Machine", nameOf(old[0]), nil)
	default:
		moved = false
	}
	return c.tell(o, machines) || moved
}

// sorted returns the machines of an owner that match it, and the others.
func (c *capi) sorted(o tree, machines []tree) (fresh, old []tree) {
	for _, m := range machines {
		switch {
		case str(m, "metadata", "labels", "owner") != nameOf(o):
		case c.upToDate(o, m):
			fresh = append(fresh, m)
		default:
			old = append(old, m)
		}
	}
	return fresh, old
}

func (c *capi) upToDate(o, m tree) bool {
	return str(m, "spec", "version") == versionIn(o) && str(m, "metadata", "labels", "template") == c.templateOf(o)
}

func (c *capi) machine(cluster string, o tree) tree {
	c.made++
	labels := tree{"owner": nameOf(o), "template": c.templateOf(o), "cluster.x-k8s.io/cluster-name": cluster}
	if o["kind"] == "MachineDeployment" {
		labels["cluster.x-k8s.io/deployment-name"] = nameOf(o)
	} else {
		labels["cluster.x-k8s.io/control-plane"] = ""
	}
	name := fmt.Sprintf("%s-m%d", nameOf(o), c.made)
	return c.create("Machine", name, tree{
		"clusterName": cluster, "version": versionIn(o), "bootstrap": tree{"dataSecretName": "x"},
		"infrastructureRef": c.ref("infrastructure.cluster.x-k8s.io", "v1alpha7", "BoxMachine", name),
	}, labels)
}

// born gives a machine a node.
func (c *capi) born(m tree) tree {
	info := tree{"kubeletVersion": str(m, "spec", "version") + "-box"}
	for k := range strings.FieldsSeq("architecture bootID containerRuntimeVersion kernelVersion kubeProxyVersion machineID operatingSystem osImage systemUUID") {
		info[k] = ""
	}
	return c.status("Machine", nameOf(m), tree{"nodeRef": tree{"name": nameOf(m)}, "nodeInfo": info, "phase": "Running"})
}

// tell writes the status of a control plane or a deployment, and reports whether the status
// changed.
func (c *capi) tell(o tree, machines []tree) bool {
	fresh, old := c.sorted(o, machines)
	all, ready, lowest := len(fresh)+len(old), 0, ""
	for _, m := range append(fresh, old...) {
		if at(m, "status", "nodeInfo") != nil {
			ready++
		}
		lowest = min(cmp.Or(lowest, str(m, "spec", "version")), str(m, "spec", "version"))
	}
	status := tree{"observedGeneration": num(o, "metadata", "generation"), "replicas": all, "readyReplicas": ready}
	if c.version == "v1beta1" {
		status["updatedReplicas"], status["unavailableReplicas"] = len(fresh), all-ready
	} else {
		status["upToDateReplicas"], status["availableReplicas"] = len(fresh), ready
	}
	if o["kind"] == "KubeadmControlPlane" && lowest != "" {
		status["version"] = lowest
	}
	if told, _ := o["status"].(tree); within(told, status) {
		return false
	}
	c.status(o["kind"].(string), nameOf(o), status)
	return true
}

// within reports whether told has all fields of status.
func within(told, status tree) bool {
	for k := range maps.Keys(status) {
		if fmt.Sprint(told[k]) != fmt.Sprint(status[k]) {
			return false
		}
	}
	return true
}
