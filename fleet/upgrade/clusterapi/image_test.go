package clusterapi_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/fleet/upgrade/clusterapi"
)

// imageChange returns a change of images only.
func imageChange(id, image string, pools ...string) upgrade.Change {
	var g upgrade.Goal
	for _, p := range pools {
		g.Pools = append(g.Pools, upgrade.PoolGoal{Name: p, Image: image})
	}
	return upgrade.Change{ID: id, Placement: "fleet", Epoch: 1, Part: upgrade.Nodes, Goal: g}
}

// imageIn returns the image of the template that an object refers to.
func (c *capi) imageIn(o tree) string {
	return str(c.get("BoxMachineTemplate", c.templateOf(o)), "spec", "template", "spec", "image")
}

func (c *capi) templates() int { return len(c.get("BoxMachineTemplate", "")["items"].([]any)) }

// poolsOf returns the pools of a cluster with their images.
func poolsOf(d upgrade.Cluster) string {
	var out []string
	for _, p := range d.Pools {
		out = append(out, p.Name+"="+p.Image)
	}
	return strings.Join(out, " ")
}

func TestAnImageIsACopyOfTheTemplate(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, c *capi) {
		c.cluster("a", false, "md-0", "md-1")
		p := c.provider(c.conn, images())
		if got := poolsOf(describe(t, p, "a")); got != "a-md-0=box-30 a-md-1=box-30 ControlPlane=box-30" {
			t.Fatalf("the images are %s", got)
		}
		images := imageChange("run.1.Nodes", "box-30b", "a-md-0", clusterapi.ControlPlanePool)
		begin(t, p, "a", images)
		if got := describe(t, p, "a").Pools[0].Image; got != "" {
			t.Fatalf("while it is rolled out, the image is %q", got)
		}
		d := c.follow(p, "a", images)
		if got := poolsOf(d); d.Operation.State != upgrade.Succeeded || got != "a-md-0=box-30b a-md-1=box-30 ControlPlane=box-30b" {
			t.Fatalf("the images are %s, and %+v", got, d.Operation)
		}
		for _, o := range append(c.list("MachineDeployment", "a"), c.get("KubeadmControlPlane", "a-cp")) {
			if fresh, old := c.sorted(o, c.list("Machine", "a")); len(fresh) != 1 || len(old) != 0 {
				t.Fatalf("%s has %d machines of the image, and %d others", nameOf(o), len(fresh), len(old))
			}
		}
		clone := c.get("BoxMachineTemplate", c.templateOf(c.get("MachineDeployment", "a-md-0")))
		if str(clone, "spec", "template", "spec", "size") != "big" || str(clone, "metadata", "labels", "cluster.x-k8s.io/cluster-name") != "a" {
			t.Fatalf("the copy is %v", clone)
		}
		begin(t, p, "a", imageChange("run.2.Nodes", "box-30c", "a-md-0"))
		if name := c.templateOf(c.get("MachineDeployment", "a-md-0")); !strings.HasPrefix(name, "a-md-0-") || len(name) != len("a-md-0-")+10 {
			t.Fatalf("the copy of a copy is called %s", name)
		}
	})
}

func TestTheControlPlaneGetsItsImageWithItsVersion(t *testing.T) {
	t.Parallel()
	for _, topology := range []bool{true, false} {
		c := newCAPI(t, "v1beta2")
		c.cluster("a", topology, "md-0")
		p := c.provider(c.conn, images())
		both := change(upgrade.ControlPlane, 1)
		both.Goal.Pools = []upgrade.PoolGoal{{Name: clusterapi.ControlPlanePool, Version: "1.31.2", Image: "box-31"}}
		made := c.made
		begin(t, p, "a", both)
		if d := c.follow(p, "a", both); d.Operation.State != upgrade.Succeeded || c.imageIn(c.get("KubeadmControlPlane", "a-cp")) != "box-31" {
			t.Fatalf("topology %v: %+v", topology, d)
		}
		if topology {
			made++ // the template of the topology
		}
		if c.made != made+1 {
			t.Fatalf("topology %v: the control plane was rolled out more than once", topology)
		}
	}
}

func TestTheImageOfATopologyIsAnOverrideOfEachPool(t *testing.T) {
	t.Parallel()
	c := newCAPI(t, "v1beta2")
	c.cluster("a", true, "md-0", "md-1")
	p := c.provider(c.conn, images())
	first := imageChange("run.1.Nodes", "box-30b", "md-0")
	begin(t, p, "a", first)
	if d := c.follow(p, "a", first); d.Operation.State != upgrade.Succeeded || poolsOf(d) != "md-0=box-30b md-1=box-30 ControlPlane=box-30" {
		t.Fatalf("the images are %s, and %+v", poolsOf(d), d.Operation)
	}
	// Later writes keep it.
	version := change(upgrade.ControlPlane, 1)
	begin(t, p, "a", version)
	c.settle("a")
	second := imageChange("run.2.Nodes", "box-30c", "md-1")
	begin(t, p, "a", second)
	if d := c.follow(p, "a", second); d.Operation.State != upgrade.Succeeded || poolsOf(d) != "md-0=box-30b md-1=box-30c ControlPlane=box-30" {
		t.Fatalf("the images are %s, and %+v", poolsOf(d), d.Operation)
	}
	for i, want := range []string{"box-30b", "box-30c"} {
		pool := at(c.get("Cluster", "a"), "spec", "topology", "workers", "machineDeployments").([]any)[i]
		if got := overrides(pool); len(got) != 1 || got[0].(tree)["value"] != want {
			t.Fatalf("the overrides of pool %d are %v, want %s", i, got, want)
		}
	}
	c.settle("a")
	c.expect("a", "a-cp=v1.31.2 a-md-0-x7k2p=v1.30.4 a-md-1-x7k2p=v1.30.4")
}

// errKilled is the last error that a killed process sees.
var errKilled = errors.New("killed")

// TestAProcessThatDiedBetweenTwoWritesIsFollowedByAnother covers a death after every write.
func TestAProcessThatDiedBetweenTwoWritesIsFollowedByAnother(t *testing.T) {
	t.Parallel()
	c := newCAPI(t, "v1beta2")
	c.cluster("a", false, "md-0", "md-1")
	p := c.provider(c.conn, images())
	for deaths, done := 0, false; !done; deaths++ {
		image := fmt.Sprintf("box-%d", deaths)
		want := imageChange("run."+image, image, "a-md-0", "a-md-1")
		templates, left, dying := c.templates(), deaths, &spy{Conn: c.conn}
		dying.after = func(*unstructured.Unstructured) error {
			if left--; left == -1 {
				return errKilled
			}
			return nil
		}
		err := c.provider(dying, images()).Begin(t.Context(), member("a"), want)
		if done = err == nil; !done && !errors.Is(err, errKilled) {
			t.Fatalf("death %d: %v", deaths, err)
		}
		begin(t, p, "a", want)
		for _, d := range c.list("MachineDeployment", "a") {
			if got := c.imageIn(d); got != image {
				t.Fatalf("death %d: %s has image %s", deaths, nameOf(d), got)
			}
		}
		if made := c.templates() - templates; made != 2 {
			t.Fatalf("death %d: %d templates were made for two pools", deaths, made)
		}
		before := c.revisions()
		begin(t, p, "a", want)
		if c.revisions() != before {
			t.Fatalf("death %d: what was done is done again", deaths)
		}
		c.rest("a")
	}
}

// rest completes a begun change at once.
func (c *capi) rest(name string) {
	for _, m := range c.list("Machine", name) {
		c.send("DELETE", "Machine", nameOf(m), nil)
	}
	c.complete(name)
}

func TestATemplateOfAnotherClientIsNotTaken(t *testing.T) {
	t.Parallel()
	c := newCAPI(t, "v1beta2")
	c.cluster("a", false, "md-0")
	want := imageChange("run.1", "box-31", "a-md-0")
	thief := &spy{Conn: c.conn}
	thief.before = func(obj *unstructured.Unstructured) error {
		if obj.GetKind() == "BoxMachineTemplate" {
			c.create("BoxMachineTemplate", obj.GetName(), boxes("evil"), nil)
		}
		return nil
	}
	if err := c.provider(thief, images()).Begin(t.Context(), member("a"), want); !errors.Is(err, backend.ErrPermanent) {
		t.Fatalf("the template is there: %v", err)
	}
	if got := c.imageIn(c.get("MachineDeployment", "a-md-0")); got != "box-30" {
		t.Fatalf("the image is %s", got)
	}
}
