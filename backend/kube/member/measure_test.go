package member_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/slipway-dev/slipway/backend"
)

// amountsOf are quantities as text, by resource.
func amountsOf(all map[string]resource.Quantity) string {
	if all == nil {
		return "unknown"
	}
	cpu, memory := all["cpu"], all["memory"]
	return cpu.String() + " " + memory.String()
}

// TestMeasure adds up the nodes of a cluster, subtracts the requests of unfinished Pods, and
// lists at most 200 namespaces.
func TestMeasure(t *testing.T) {
	s := clusters.Server(t, "measured")
	c := kubernetes.NewForConfigOrDie(s.Config())
	conn := connTo(t, s)
	measure := func() backend.Measurement {
		t.Helper()
		m, err := backend.Measure(t.Context(), conn)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if m := measure(); m.Nodes != 0 || amountsOf(m.Capacity) != "0 0" || amountsOf(m.Available) != "0 0" || !slices.Contains(m.Namespaces, "kube-system") || m.MoreNamespaces {
		t.Errorf("of an empty cluster: %+v", m)
	}
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory), "pods": resource.MustParse("110")}
	}
	for i := range 2 {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node", i)}}
		node, err := c.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		node.Status.Capacity, node.Status.Allocatable = list("4", "8Gi"), list("3500m", "6Gi")
		if _, err := c.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}} // which no controller makes here
	if _, err := c.CoreV1().ServiceAccounts("default").Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := func(name, node string, phase corev1.PodPhase) {
		t.Helper()
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{
			{Name: "a", Image: "example.invalid/a", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("1Gi")}}},
			{Name: "b", Image: "example.invalid/b"},
		}}}
		p, err := c.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p.Status.Phase = phase
		if _, err := c.CoreV1().Pods("default").UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	pod("runs", "node0", corev1.PodRunning)
	pod("waits", "", corev1.PodPending)
	pod("done", "node1", corev1.PodSucceeded)
	if m := measure(); m.Nodes != 2 || amountsOf(m.Capacity) != "8 16Gi" || amountsOf(m.Allocatable) != "7 12Gi" || amountsOf(m.Available) != "6500m 11Gi" {
		t.Errorf("%d nodes with %s, of which may be used %s and is left %s", m.Nodes, amountsOf(m.Capacity), amountsOf(m.Allocatable), amountsOf(m.Available))
	}
	for i := range 200 {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("many-%03d", i)}}
		if _, err := c.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if m := measure(); len(m.Namespaces) != 200 || !m.MoreNamespaces {
		t.Errorf("%d namespaces, more: %t", len(m.Namespaces), m.MoreNamespaces)
	}
}
