package clusterapi_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/fleet/upgrade/clusterapi"
	"github.com/slipway-dev/slipway/placement"
)

// images returns the configuration of the images of boxes.
func images() *clusterapi.Images {
	return &clusterapi.Images{Path: "spec.template.spec.image", TemplateVersion: "v1alpha7", Variable: "boxImage"}
}

// spy is a connection that another client interferes with.
type spy struct {
	backend.Conn
	// before is called ahead of each apply with its object; its error becomes the error of the apply.
	before func(obj *unstructured.Unstructured) error
	// after is called after each apply; its error replaces the answer.
	after func(obj *unstructured.Unstructured) error
}

func (s *spy) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	if s.before != nil {
		if err := s.before(obj); err != nil {
			return nil, err
		}
	}
	out, err := s.Conn.Apply(ctx, obj, o)
	if err == nil && s.after != nil {
		err = s.after(obj)
	}
	return out, err
}

// provider returns a provider for the clusters of the namespace.
func (c *capi) provider(conn backend.Conn, i *clusterapi.Images) *clusterapi.Provider {
	c.t.Helper()
	p, err := clusterapi.New(clusterapi.Config{
		Conn: conn, Objects: c.source, Version: c.version, Images: i,
		Locate: func(m placement.Cluster) (string, string, error) { return c.ns, m.Name, nil },
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return p
}

func member(name string) placement.Cluster { return placement.Cluster{Name: name} }

func describe(t *testing.T, p upgrade.Provider, name string) upgrade.Cluster {
	t.Helper()
	d, err := p.Describe(t.Context(), member(name))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func begin(t *testing.T, p upgrade.Provider, name string, change upgrade.Change) {
	t.Helper()
	if err := p.Begin(t.Context(), member(name), change); err != nil {
		t.Fatal(err)
	}
}

// change returns a change of one part; the goal is v1.31.2 for everything.
func change(part upgrade.Part, epoch int64, pools ...string) upgrade.Change {
	g := upgrade.Goal{ControlPlane: "1.31.2"}
	for _, p := range pools {
		g.Pools = append(g.Pools, upgrade.PoolGoal{Name: p, Version: "1.31.2"})
	}
	return upgrade.Change{ID: fmt.Sprintf("run.%d.%s", epoch, part), Placement: "fleet", Epoch: epoch, Part: part, Goal: g}
}

// follow lets Cluster API work until an operation ends, and checks all the time that it does not
// end before all machines are there.
func (c *capi) follow(p upgrade.Provider, name string, of upgrade.Change) upgrade.Cluster {
	c.t.Helper()
	for range 100 {
		d := describe(c.t, p, name)
		if d.Operation == nil || d.Operation.Change.ID != of.ID {
			c.t.Fatalf("the operation is %+v, not %s", d.Operation, of.ID)
		}
		if d.Operation.State != upgrade.Running {
			return d
		}
		if !c.step(name) {
			c.t.Fatalf("Cluster API has done everything, and still: %s", d.Operation.Message)
		}
	}
	c.t.Fatal("the operation does not end")
	return upgrade.Cluster{}
}

// versions returns the versions of a cluster's machines, by their owners.
func (c *capi) versions(name string) string {
	var out []string
	for _, m := range c.list("Machine", name) {
		out = append(out, str(m, "metadata", "labels", "owner")+"="+str(m, "spec", "version"))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (c *capi) expect(name, want string) {
	c.t.Helper()
	if got := c.versions(name); got != want {
		c.t.Fatalf("the machines are %s, not %s", got, want)
	}
}

// revisions returns the resourceVersions of all objects of the namespace.
func (c *capi) revisions() string {
	var out []string
	for _, kind := range []string{"Cluster", "KubeadmControlPlane", "MachineDeployment", "BoxMachineTemplate"} {
		for _, o := range c.get(kind, "")["items"].([]any) {
			out = append(out, nameOf(o.(tree))+"@"+str(o.(tree), "metadata", "resourceVersion"))
		}
	}
	return strings.Join(out, " ")
}

func eachVersion(t *testing.T, test func(t *testing.T, c *capi)) {
	for _, version := range []string{"v1beta1", "v1beta2"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			test(t, newCAPI(t, version))
		})
	}
}
