package step

import (
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
)

func matchLabel(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

// labelled returns a cluster; labels are key=value.
func labelled(name string, labels ...string) placement.Cluster {
	c := placement.Cluster{Name: name, UID: "uid-" + name, Labels: map[string]string{}}
	for _, l := range labels {
		k, v, _ := strings.Cut(l, "=")
		c.Labels[k] = v
	}
	return c
}

func percent(s string) *intstr.IntOrString {
	v := intstr.FromString(s)
	return &v
}

// divided returns a plan of 30 clusters whose stage is divided by region and zone.
func divided(t *testing.T, back *stages.RollbackPolicy) *stages.Plan {
	t.Helper()
	var clusters []placement.Cluster
	for i := range 30 {
		c := labelled("c"+strconv.Itoa(i), "region=r"+strconv.Itoa(i%3))
		if i%4 > 0 {
			c.Labels["zone"] = "z" + strconv.Itoa(i%2)
		}
		clusters = append(clusters, c)
	}
	return newPlan(t, stages.Strategy{Cap: "shared", Rollback: back, Stages: []stages.Stage{{
		Name: "all", Selector: &metav1.LabelSelector{}, MaxConcurrency: percent("50%"),
		Domains: []stages.Domain{{Key: "region", MaxConcurrency: percent("50%")}, {Key: "zone", MaxConcurrency: percent("50%")}},
	}}}, clusters)
}

func newPlan(t testing.TB, s stages.Strategy, clusters []placement.Cluster) *stages.Plan {
	t.Helper()
	p, err := planner.Plan(s, stages.Target{Placement: "web", Index: 3, Snapshot: "snap", Selection: "dec", Default: "rev"}, clusters)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
