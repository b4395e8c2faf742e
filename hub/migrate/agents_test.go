package migrate

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDeploymentsOfAgents(t *testing.T) {
	none := int32(0)
	for name, c := range map[string]struct {
		labels   string
		image    string
		replicas *int32
		left     int32
		is, runs bool
	}{
		"the chart's":        {"member-agent", "x", nil, 0, true, true},
		"by its image":       {"", "ghcr.io/kubefleet-dev/kubefleet/hub-agent:v0.2.1", nil, 1, true, true},
		"by a digest":        {"", "example.com/hub-agent@sha256:00", nil, 1, true, true},
		"stopped":            {"hub-agent", "x", &none, 0, true, false},
		"stopping":           {"hub-agent", "x", &none, 1, true, true},
		"another one":        {"web", "nginx:1", nil, 1, false, false},
		"one called alike":   {"", "example.com/my-hub-agent:1", nil, 1, false, false},
		"a port in the name": {"", "localhost:5000/member-agent", nil, 1, true, true},
	} {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "d"}}
		if c.labels != "" {
			d.Labels = map[string]string{"app.kubernetes.io/name": c.labels}
		}
		d.Spec.Replicas, d.Status.Replicas = c.replicas, c.left
		d.Spec.Template.Spec.Containers = []corev1.Container{{Image: c.image}}
		if a, is := deploymentAgent("m", d); is != c.is || a.Running != c.runs {
			t.Errorf("%s: %+v, %t", name, a, is)
		}
	}
}

func TestLeasesOfAgents(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		lease, holder string
		age           time.Duration
		is, runs      bool
	}{
		"the hub agent's":       {"136224848560.hub.fleet.azure.com", "a", 10 * time.Second, true, true},
		"the member agent's":    {"136224848560.member.fleet.azure.com", "a", 0, true, true},
		"a clock that is ahead": {"136224848560.hub.fleet.azure.com", "a", -time.Minute, true, true},
		"just lapsed":           {"136224848560.hub.fleet.azure.com", "a", 29 * time.Second, true, true},
		"lapsed":                {"136224848560.hub.fleet.azure.com", "a", 30 * time.Second, true, false},
		"given up":              {"136224848560.hub.fleet.azure.com", "", 0, true, false},
		"another one":           {"slipway-hub", "a", 0, false, false},
	} {
		at, lasts := metav1.NewMicroTime(now.Add(-c.age)), int32(15)
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: c.lease}}
		l.Spec = coordinationv1.LeaseSpec{HolderIdentity: &c.holder, RenewTime: &at, LeaseDurationSeconds: &lasts}
		if a, is := leaseAgent("m", l, now); is != c.is || a.Running != c.runs {
			t.Errorf("%s: %+v, %t", name, a, is)
		}
	}
}
