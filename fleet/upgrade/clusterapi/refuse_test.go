package clusterapi_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/fleet/upgrade/clusterapi"
	"github.com/slipway-dev/slipway/placement"
)

func TestImpossibleUpgradesAreRefusedWithAllReasons(t *testing.T) {
	t.Parallel()
	c := newCAPI(t, "v1beta2")
	c.cluster("top", true, "md-0", "md-1")
	c.cluster("plain", false, "md-0")
	c.patch("Cluster", "top", tree{"spec": tree{"topology": tree{"workers": tree{"machineDeployments": []any{
		tree{"class": "worker", "name": "md-0", "replicas": 1},
		tree{"class": "worker", "name": "md-1", "replicas": 1, "metadata": tree{"annotations": tree{"topology.cluster.x-k8s.io/defer-upgrade": ""}}},
	}}}}})
	c.settle("top")
	without := c.provider(c.conn, nil)
	novar := images()
	novar.Variable = ""
	for _, of := range []struct {
		p       *clusterapi.Provider
		cluster string
		change  upgrade.Change
		want    []string
	}{
		{without, "plain", imageChange("r", "box-31", "plain-md-0", "md-9"), []string{`no node pool "md-9"`, "plain-md-0 is to get an image: say in Config.Images"}},
		{c.provider(c.conn, novar), "top", imageChange("r", "box-31", "md-0"), []string{"Config.Images.Variable"}},
		{without, "plain", change(upgrade.Nodes, 1, "plain-md-0"), []string{"newer than that of the control plane, v1.30.4"}},
		{without, "top", change(upgrade.Nodes, 1, "md-0", "md-1"), []string{"pools of a topology get its version, which is v1.30.4", "md-1 is held back by an annotation"}},
		{without, "plain", upgrade.Change{ID: "r", Part: "Some"}, []string{`part "Some"`}},
		{without, "plain", imageChange("r", strings.Repeat("x", 200<<10), "plain-md-0"), []string{"more than the 131072"}},
	} {
		before := c.revisions()
		err := of.p.Begin(t.Context(), member(of.cluster), of.change)
		if !errors.Is(err, backend.ErrPermanent) {
			t.Errorf("%s: %v", of.want, err)
			continue
		}
		for _, want := range of.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not said in: %v", want, err)
			}
		}
		if c.revisions() != before {
			t.Errorf("%s: refused, and written", of.want)
		}
	}
}

func TestAPoolThatAnotherClientHoldsBackKeepsItsAnnotation(t *testing.T) {
	t.Parallel()
	c := newCAPI(t, "v1beta2")
	c.cluster("a", true, "md-0")
	mark := tree{"topology.cluster.x-k8s.io/defer-upgrade": "until spring"}
	c.patch("Cluster", "a", tree{"spec": tree{"topology": tree{"workers": tree{"machineDeployments": []any{
		tree{"class": "worker", "name": "md-0", "replicas": 1, "metadata": tree{"annotations": mark}},
	}}}}})
	c.settle("a")
	p := c.provider(c.conn, nil)
	begin(t, p, "a", change(upgrade.ControlPlane, 1))
	c.follow(p, "a", change(upgrade.ControlPlane, 1))
	pool := at(c.get("Cluster", "a"), "spec", "topology", "workers", "machineDeployments").([]any)[0].(tree)
	if got := fmt.Sprint(at(pool, "metadata", "annotations")); got != fmt.Sprint(mark) {
		t.Fatalf("the annotations are %s", got)
	}
	c.expect("a", "a-cp=v1.31.2 a-md-0-x7k2p=v1.30.4")
}

func TestAClusterThatIsNotThereIsNotFound(t *testing.T) {
	t.Parallel()
	c := newCAPI(t, "v1beta2")
	p := c.provider(c.conn, nil)
	if _, err := p.Describe(t.Context(), member("missing")); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("describe: %v", err)
	}
	if err := p.Begin(t.Context(), member("missing"), change(upgrade.ControlPlane, 1)); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("begin: %v", err)
	}
	c.create("Cluster", "young", tree{"controlPlaneRef": c.ref("controlplane.cluster.x-k8s.io", c.version, "KubeadmControlPlane", "young-cp")}, nil)
	_, err := p.Describe(t.Context(), member("young"))
	if err == nil || errors.Is(err, backend.ErrNotFound) || errors.Is(err, backend.ErrPermanent) {
		t.Errorf("a cluster whose control plane is not there yet: %v", err)
	}
}

func TestAConfigurationIsRefusedWithAllReasons(t *testing.T) {
	t.Parallel()
	_, err := clusterapi.New(clusterapi.Config{Version: "v1alpha4", Images: &clusterapi.Images{Path: "spec..image"}})
	for _, want := range []string{"Conn is nil", "Objects is nil", "v1alpha4", "Images.Path"} {
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, backend.ErrPermanent) {
			t.Errorf("%s is not refused: %v", want, err)
		}
	}
	good := clusterapi.Config{Conn: memory.NewCluster("m").Conn(), Objects: memory.NewSource()}
	for _, i := range []*clusterapi.Images{{Path: ""}, {Path: "status.image", TemplateVersion: "v1"}, {Path: "spec", TemplateVersion: "v1"}, {Path: "spec.image"}} {
		good.Images = i
		if _, err := clusterapi.New(good); err == nil {
			t.Errorf("%+v is taken", i)
		}
	}
	good.Images, good.Version = &clusterapi.Images{Path: "spec.image"}, "v1beta1"
	if _, err := clusterapi.New(good); err != nil {
		t.Error(err)
	}
}

func TestInvalidLocationsAreRefused(t *testing.T) {
	t.Parallel()
	for _, at := range [][2]string{{"../x", "a"}, {"x", "a/status"}, {"", "a"}, {"x", ""}} {
		p, err := clusterapi.New(clusterapi.Config{
			Conn: memory.NewCluster("m").Conn(), Objects: memory.NewSource(),
			Locate: func(placement.Cluster) (string, string, error) { return at[0], at[1], nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Describe(t.Context(), member("a")); !errors.Is(err, backend.ErrPermanent) {
			t.Errorf("%q: %v", at, err)
		}
	}
}

func TestPoolsWaitForAHealthyControlPlane(t *testing.T) {
	t.Parallel()
	c := newCAPI(t, "v1beta2")
	c.cluster("a", false, "md-0")
	p := c.provider(c.conn, nil)
	begin(t, p, "a", change(upgrade.ControlPlane, 1))
	c.settle("a")
	c.status("KubeadmControlPlane", "a-cp", tree{"readyReplicas": 0})
	if d := describe(t, p, "a"); d.Healthy || d.Operation.State != upgrade.Succeeded {
		t.Fatalf("a machine that is not ready: %+v", d)
	}
	if err := p.Begin(t.Context(), member("a"), change(upgrade.Nodes, 1, "a-md-0")); !errors.Is(err, backend.ErrConflict) {
		t.Fatalf("the control plane is not ready: %v", err)
	}
	c.settle("a")
	begin(t, p, "a", change(upgrade.Nodes, 1, "a-md-0"))
}

// TestPartlyBegunChangeIsNotARefusal covers a refused write after an accepted write: the
// error must not be one of the kinds that say that nothing was begun.
func TestPartlyBegunChangeIsNotARefusal(t *testing.T) {
	t.Parallel()
	for _, kind := range []error{backend.ErrPermanent, backend.ErrConflict, backend.ErrNotFound} {
		c := newCAPI(t, "v1beta2")
		c.cluster("a", false, "md-0", "md-1")
		refusing := &spy{Conn: c.conn}
		refusing.before = func(obj *unstructured.Unstructured) error {
			if obj.GetName() == "a-md-1" {
				return kind
			}
			return nil
		}
		nodes := imageChange("run.1.Nodes", "box-31", "a-md-0", "a-md-1")
		err := c.provider(refusing, images()).Begin(t.Context(), member("a"), nodes)
		if err == nil || errors.Is(err, kind) {
			t.Fatalf("%v: half is written, and the error is %v", kind, err)
		}
		p := c.provider(c.conn, images())
		begin(t, p, "a", nodes)
		if d := c.follow(p, "a", nodes); d.Operation.State != upgrade.Succeeded || poolsOf(d) != "a-md-0=box-31 a-md-1=box-31 ControlPlane=box-30" {
			t.Fatalf("%v: it ended with %+v", kind, d)
		}
	}
}
