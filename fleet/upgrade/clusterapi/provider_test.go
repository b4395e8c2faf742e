package clusterapi_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/upgrade"
)

func TestATopologyGetsItsControlPlaneAndThenItsPools(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, c *capi) {
		c.cluster("a", true, "md-0", "md-1")
		p := c.provider(c.conn, nil)
		d := describe(t, p, "a")
		if d.Operation != nil || !d.Healthy || d.ControlPlane != "v1.30.4" || len(d.Pools) != 2 || d.Pools[1].Name != "md-1" || d.Pools[1].Version != "v1.30.4" || d.Region != "eu" {
			t.Fatalf("a cluster at rest is %+v", d)
		}
		first := change(upgrade.ControlPlane, 1, "md-0", "md-1")
		begin(t, p, "a", first)
		if d := c.follow(p, "a", first); d.Operation.State != upgrade.Succeeded || d.ControlPlane != "v1.31.2" || !d.Healthy {
			t.Fatalf("the control plane has %+v", d)
		}
		c.settle("a")
		c.expect("a", "a-cp=v1.31.2 a-md-0-x7k2p=v1.30.4 a-md-1-x7k2p=v1.30.4")

		second := change(upgrade.Nodes, 1, "md-0", "md-1")
		begin(t, p, "a", second)
		d = c.follow(p, "a", second)
		if d.Operation.State != upgrade.Succeeded || d.Pools[0].Version != "v1.31.2" || !d.Healthy {
			t.Fatalf("the pools have %+v", d)
		}
		c.expect("a", "a-cp=v1.31.2 a-md-0-x7k2p=v1.31.2 a-md-1-x7k2p=v1.31.2")
		if d.Operation.Change.Goal.Pools[1].Name != "md-1" || d.Operation.Change.Placement != "fleet" {
			t.Fatalf("the change came back as %+v", d.Operation.Change)
		}
	})
}

func TestOtherPoolsOfATopologyKeepTheirVersion(t *testing.T) {
	t.Parallel()
	c := newCAPI(t, "v1beta2")
	c.cluster("a", true, "md-0", "md-1")
	p := c.provider(c.conn, nil)
	begin(t, p, "a", change(upgrade.ControlPlane, 1))
	c.settle("a")
	begin(t, p, "a", change(upgrade.Nodes, 1, "md-1"))
	c.follow(p, "a", change(upgrade.Nodes, 1, "md-1"))
	c.settle("a")
	c.expect("a", "a-cp=v1.31.2 a-md-0-x7k2p=v1.30.4 a-md-1-x7k2p=v1.31.2")
}

func TestAClusterWithoutATopologyGetsItsControlPlaneAndThenItsPools(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, c *capi) {
		c.cluster("a", false, "md-0", "md-1")
		p := c.provider(c.conn, nil)
		first := change(upgrade.ControlPlane, 1, "a-md-0", "a-md-1")
		begin(t, p, "a", first)
		if d := c.follow(p, "a", first); d.Operation.State != upgrade.Succeeded || d.ControlPlane != "v1.31.2" {
			t.Fatalf("the control plane has %+v", d)
		}
		c.expect("a", "a-cp=v1.31.2 a-md-0=v1.30.4 a-md-1=v1.30.4")
		second := change(upgrade.Nodes, 1, "a-md-1")
		begin(t, p, "a", second)
		if d := c.follow(p, "a", second); d.Operation.State != upgrade.Succeeded || !d.Healthy {
			t.Fatalf("the pools have %+v", d)
		}
		c.settle("a")
		c.expect("a", "a-cp=v1.31.2 a-md-0=v1.30.4 a-md-1=v1.31.2")
	})
}

func TestAChangeThatWasBegunIsNotBegunAgain(t *testing.T) {
	t.Parallel()
	for _, topology := range []bool{true, false} {
		c := newCAPI(t, "v1beta2")
		c.cluster("a", topology, "md-0")
		p := c.provider(c.conn, nil)
		begin(t, p, "a", change(upgrade.ControlPlane, 1))
		before := c.revisions()
		begin(t, p, "a", change(upgrade.ControlPlane, 1))
		if after := c.revisions(); after != before {
			t.Fatalf("topology %v: asked again, it wrote: %s, then %s", topology, before, after)
		}
		c.settle("a")
		before = c.revisions()
		begin(t, p, "a", change(upgrade.ControlPlane, 1))
		if after := c.revisions(); after != before {
			t.Fatalf("topology %v: asked when it was over, it wrote", topology)
		}
	}
}

func TestAnOlderEpochIsFenced(t *testing.T) {
	t.Parallel()
	for _, topology := range []bool{true, false} {
		c := newCAPI(t, "v1beta2")
		c.cluster("a", topology, "md-0")
		p := c.provider(c.conn, nil)
		begin(t, p, "a", change(upgrade.ControlPlane, 7))
		c.settle("a")
		before := c.revisions()
		older := change(upgrade.ControlPlane, 6)
		older.Goal.ControlPlane = "1.31.9"
		if err := p.Begin(t.Context(), member("a"), older); !errors.Is(err, backend.ErrFenced) {
			t.Fatalf("an older epoch: %v", err)
		}
		if after := c.revisions(); after != before {
			t.Fatalf("topology %v: an older epoch wrote", topology)
		}
		other := older
		other.Placement = "another"
		begin(t, p, "a", other)
	}
}

// TestOlderEpochIsFencedBetweenReadAndWrite delays an older change between its read and its
// write. It includes objects that the newer change had no reason to write.
func TestOlderEpochIsFencedBetweenReadAndWrite(t *testing.T) {
	t.Parallel()
	for _, topology := range []bool{true, false} {
		c := newCAPI(t, "v1beta2")
		c.cluster("a", topology, "md-0")
		newer := c.provider(c.conn, nil)
		once := false
		held := &spy{Conn: c.conn}
		held.before = func(obj *unstructured.Unstructured) error {
			if once || !topology && obj.GetKind() != "MachineDeployment" {
				return nil
			}
			once = true
			begin(t, newer, "a", change(upgrade.ControlPlane, 2))
			return nil
		}
		older := change(upgrade.ControlPlane, 1)
		older.Goal.ControlPlane = "1.30.9"
		if err := c.provider(held, nil).Begin(t.Context(), member("a"), older); !errors.Is(err, backend.ErrFenced) {
			t.Fatalf("topology %v: %v", topology, err)
		}
		if got := versionIn(c.get("KubeadmControlPlane", "a-cp")); !topology && got != "v1.31.2" {
			t.Fatalf("the control plane is to get %s", got)
		}
	}
}

func TestAConcurrentWriteOfAnotherClientIsRead(t *testing.T) {
	t.Parallel()
	for _, topology := range []bool{true, false} {
		c := newCAPI(t, "v1beta2")
		c.cluster("a", topology, "md-0")
		left, busy := 3, &spy{Conn: c.conn}
		busy.before = func(obj *unstructured.Unstructured) error {
			if left--; left >= 0 {
				c.patch(obj.GetKind(), obj.GetName(), tree{"metadata": tree{"annotations": tree{"touched": fmt.Sprint(left)}}})
			}
			return nil
		}
		begin(t, c.provider(busy, nil), "a", change(upgrade.ControlPlane, 1))
		left = 1000
		c.settle("a")
		next := change(upgrade.ControlPlane, 2)
		next.Goal.ControlPlane = "1.31.3"
		if err := c.provider(busy, nil).Begin(t.Context(), member("a"), next); !errors.Is(err, backend.ErrConflict) {
			t.Fatalf("topology %v: always too late: %v", topology, err)
		}
		if got := versionIn(c.get("KubeadmControlPlane", "a-cp")); got != "v1.31.2" {
			t.Fatalf("topology %v: something was begun: %s", topology, got)
		}
	}
}

func TestAnotherClientsUpgradeIsWaitedFor(t *testing.T) {
	t.Parallel()
	for _, topology := range []bool{true, false} {
		c := newCAPI(t, "v1beta2")
		c.cluster("a", topology, "md-0")
		p := c.provider(c.conn, nil)
		if topology {
			c.patch("Cluster", "a", tree{"spec": tree{"topology": tree{"version": "v1.30.7"}}})
		} else {
			c.patch("KubeadmControlPlane", "a-cp", tree{"spec": tree{"version": "v1.30.7"}})
		}
		for range 4 {
			d := describe(t, p, "a")
			if d.Operation == nil || d.Operation.Change.ID != "" || d.Operation.State != upgrade.Running || d.Operation.Message == "" {
				t.Fatalf("topology %v: the operation is %+v", topology, d.Operation)
			}
			before := c.revisions()
			if err := p.Begin(t.Context(), member("a"), change(upgrade.ControlPlane, 1)); !errors.Is(err, backend.ErrConflict) {
				t.Fatalf("topology %v: begun meanwhile: %v", topology, err)
			}
			if c.revisions() != before {
				t.Fatalf("topology %v: refused, and written", topology)
			}
			c.step("a")
		}
		c.settle("a")
		begin(t, p, "a", change(upgrade.ControlPlane, 1))
	}
}

// TestAStatusOfAnEarlierGenerationIsNotBelieved covers the time between a write and the first
// reconcile of Cluster API.
func TestAStatusOfAnEarlierGenerationIsNotBelieved(t *testing.T) {
	t.Parallel()
	c := newCAPI(t, "v1beta2")
	c.cluster("a", false, "md-0")
	c.cluster("b", true, "md-0")
	p := c.provider(c.conn, nil)
	for kind, name := range map[string]string{"KubeadmControlPlane": "a-cp", "MachineDeployment": "a-md-0"} {
		c.patch(kind, name, tree{"spec": tree{"replicas": 1, "rollout": tree{"after": "2026-01-01T00:00:00Z"}}})
		if d := describe(t, p, "a"); d.Healthy || d.Operation == nil || d.Operation.State != upgrade.Running {
			t.Fatalf("%s has a change that was not observed, and the cluster is %+v", kind, d)
		}
		c.settle("a")
		if d := describe(t, p, "a"); !d.Healthy || d.Operation != nil {
			t.Fatalf("it was observed, and the cluster is %+v, %s", d.Operation, d.Message)
		}
	}
	c.patch("Cluster", "b", tree{"spec": tree{"topology": tree{"controlPlane": tree{"replicas": 1}}}})
	if d := describe(t, p, "b"); d.Operation == nil || d.Operation.State != upgrade.Running {
		t.Fatalf("the condition is about an earlier generation, and the cluster is %+v", d.Operation)
	}
}

func TestAMachineThatWasGivenUpFailsTheChange(t *testing.T) {
	t.Parallel()
	eachVersion(t, func(t *testing.T, c *capi) {
		c.cluster("a", false, "md-0")
		p := c.provider(c.conn, nil)
		begin(t, p, "a", change(upgrade.ControlPlane, 1))
		c.settle("a")
		c.fails["a-md-0"] = true
		nodes := change(upgrade.Nodes, 1, "a-md-0")
		begin(t, p, "a", nodes)
		c.settle("a")
		if d := describe(t, p, "a"); d.Operation.State != upgrade.Running || d.Healthy {
			t.Fatalf("a machine that has no node yet: %+v", d)
		}
		broken := fmt.Sprintf("a-md-0-m%d", c.made)
		status := tree{"failureReason": "CreateError", "failureMessage": "no boxes\nleft"}
		if c.version == "v1beta2" {
			status = tree{"deprecated": tree{"v1beta1": status}}
		}
		c.status("Machine", broken, status)
		d := describe(t, p, "a")
		if d.Operation.State != upgrade.Failed || d.Operation.Change.ID != nodes.ID || !strings.Contains(d.Operation.Message, broken+" failed: no boxes left") {
			t.Fatalf("a machine failed: %+v", d.Operation)
		}
		begin(t, p, "a", change(upgrade.Nodes, 2, "a-md-0")) // nothing is under way any more
		condition := []any{tree{
			"type": "OwnerRemediated", "status": "False", "reason": "Waiting", "message": "waits", "severity": "Warning", "lastTransitionTime": "2026-01-01T00:00:00Z",
		}}
		if c.version == "v1beta2" {
			delete(condition[0].(tree), "severity")
		}
		c.status("Machine", broken, tree{"conditions": condition})
		if d := describe(t, p, "a"); d.Operation.State != upgrade.Running || d.Healthy {
			t.Fatalf("a machine is being replaced: %+v", d)
		}
		c.fails["a-md-0"] = false
		c.send(http.MethodDelete, "Machine", broken, nil)
		if d := c.follow(p, "a", change(upgrade.Nodes, 2, "a-md-0")); d.Operation.State != upgrade.Succeeded || !d.Healthy {
			t.Fatalf("it was replaced: %+v", d)
		}
	})
}

func TestAPausedClusterIsLeftAlone(t *testing.T) {
	t.Parallel()
	c := newCAPI(t, "v1beta2")
	c.cluster("a", true, "md-0")
	p := c.provider(c.conn, nil)
	c.patch("Cluster", "a", tree{"spec": tree{"paused": true}})
	if err := p.Begin(t.Context(), member("a"), change(upgrade.ControlPlane, 1)); !errors.Is(err, backend.ErrConflict) || !strings.Contains(err.Error(), "paused") {
		t.Fatalf("paused: %v", err)
	}
}

// TestMachinesTakePrecedenceOverCounts covers counts that are ahead of the machines.
func TestMachinesTakePrecedenceOverCounts(t *testing.T) {
	t.Parallel()
	c := newCAPI(t, "v1beta2")
	c.cluster("a", false, "md-0")
	p := c.provider(c.conn, nil)
	begin(t, p, "a", change(upgrade.ControlPlane, 1))
	c.settle("a")
	nodes := change(upgrade.Nodes, 1, "a-md-0")
	begin(t, p, "a", nodes)
	is := func(state upgrade.OperationState, version, message string) {
		t.Helper()
		if d := describe(t, p, "a"); d.Operation.State != state || d.Pools[0].Version != version || !strings.Contains(d.Operation.Message, message) {
			t.Fatalf("%+v %+v, want %s, %s, %s", d.Pools, d.Operation, state, version, message)
		}
	}
	observed := num(c.get("MachineDeployment", "a-md-0"), "metadata", "generation")
	c.status("MachineDeployment", "a-md-0", tree{"observedGeneration": observed})
	machine := c.list("Machine", "a")[1]
	is(upgrade.Running, "v1.30.4", nameOf(machine)+" has version v1.30.4, not v1.31.2")
	c.patch("Machine", nameOf(machine), tree{"spec": tree{"version": "v1.31.2"}})
	is(upgrade.Running, "v1.30.4-box", nameOf(machine)+" runs kubelet v1.30.4-box, not v1.31.2")
	c.born(c.get("Machine", nameOf(machine)))
	is(upgrade.Succeeded, "v1.31.2", "")
	c.status("Machine", nameOf(machine), tree{"conditions": []any{tree{
		"type": "UpToDate", "status": "False", "reason": "Old", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z",
	}}})
	is(upgrade.Running, "v1.31.2", nameOf(machine)+" is not up to date")
}

// TestChangeOverwrittenByAnotherClientIsNotRepeated checks that a change which was begun is not
// begun again after another client wrote over it.
func TestChangeOverwrittenByAnotherClientIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, topology := range []bool{true, false} {
		c := newCAPI(t, "v1beta2")
		c.cluster("a", topology, "md-0")
		p := c.provider(c.conn, nil)
		begin(t, p, "a", change(upgrade.ControlPlane, 1))
		if topology {
			c.patch("Cluster", "a", tree{"spec": tree{"topology": tree{"version": "v1.31.7"}}})
		} else {
			c.patch("KubeadmControlPlane", "a-cp", tree{"spec": tree{"version": "v1.31.7"}})
		}
		if d := describe(t, p, "a"); d.Operation.Change.ID != "" || d.Operation.State != upgrade.Running {
			t.Fatalf("topology %v: the operation is %+v", topology, d.Operation)
		}
		before := c.revisions()
		begin(t, p, "a", change(upgrade.ControlPlane, 1))
		if c.revisions() != before {
			t.Fatalf("topology %v: it was begun again", topology)
		}
	}
}
