package placement_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-dev/slipway/placement"
)

// many is a map of n entries.
func many[V any](n int, v V) map[string]V {
	m := make(map[string]V, n)
	for i := range n {
		m[fmt.Sprintf("k%06d", i)] = v
	}
	return m
}

// within reports whether a cluster keeps all limits.
func within(c placement.Cluster) bool {
	if len(c.Labels) > placement.MaxLabels || len(c.Properties) > placement.MaxProperties || len(c.Taints) > placement.MaxTaints ||
		len(c.UID) > placement.MaxUID || len(c.Unhealthy) > placement.MaxUnhealthy+len("...") {
		return false
	}
	for key, value := range c.Labels {
		if len(key) > 253+1+63 || len(value) > 63 {
			return false
		}
	}
	for name := range c.Properties {
		if len(name) > 253+1+63 {
			return false
		}
	}
	for _, t := range c.Taints {
		if len(t.Key)+len(t.Value)+len(t.Effect) > 253+1+3*63 {
			return false
		}
	}
	return true
}

func TestOversizedClusterIsBounded(t *testing.T) {
	long, one := strings.Repeat("x", 1<<20), resource.MustParse("1")
	prefix, name := strings.Repeat("p", 253), strings.Repeat("n", 63)
	for what, tc := range map[string]struct {
		cluster placement.Cluster
		want    string
	}{
		"labels":            {placement.Cluster{Labels: many(20_000, "v")}, "20000 labels, 0 too long, at most 1000"},
		"a label's key":     {placement.Cluster{Labels: map[string]string{long: "v", "a": "b"}}, "2 labels, 1 too long"},
		"a label's prefix":  {placement.Cluster{Labels: map[string]string{prefix + "p/n": "v"}}, "1 labels, 1 too long"},
		"a label's name":    {placement.Cluster{Labels: map[string]string{"p/" + name + "n": "v"}}, "1 labels, 1 too long"},
		"a label's value":   {placement.Cluster{Labels: map[string]string{"a": name + "n"}}, "1 labels, 1 too long"},
		"properties":        {placement.Cluster{Properties: many(5_000, one)}, "5000 properties, 0 too long, at most 100"},
		"a property's name": {placement.Cluster{Properties: map[string]resource.Quantity{long: one}}, "1 properties, 1 too long"},
		"taints":            {placement.Cluster{Taints: make([]placement.Taint, 101)}, "101 taints, 1 too long or too many"},
		"a taint's value":   {placement.Cluster{Taints: []placement.Taint{{Key: "a", Value: long}}}, "1 taints, 1 too long"},
		"a UID":             {placement.Cluster{UID: long}, "a UID of 1048576 bytes that is none"},
		"a UID of words":    {placement.Cluster{UID: "not one"}, "a UID of 7 bytes that is none"},
		"health":            {placement.Cluster{Unhealthy: long}, "xxx"},
	} {
		t.Run(what, func(t *testing.T) {
			got := tc.cluster.Bounded()
			if !within(got) || !strings.Contains(got.Unhealthy, tc.want) {
				t.Errorf("it is not healthy for %q with %d labels, want it within the limits, and %q", got.Unhealthy, len(got.Labels), tc.want)
			}
			if again := got.Bounded(); !cmp.Equal(again, got) {
				t.Errorf("bounded again it is %+v", again)
			}
		})
	}
	a, b := placement.Cluster{UID: "a b"}.Bounded(), placement.Cluster{UID: "a c"}.Bounded()
	if a.UID == b.UID || a.UID == "a b" {
		t.Errorf("UIDs %q and %q", a.UID, b.UID)
	}
}

func TestClusterWithinTheLimitsIsUnchanged(t *testing.T) {
	prefix, name := strings.Repeat("p", 253), strings.Repeat("n", 63)
	labels := many(999, "v")
	labels[prefix+"/"+name] = name
	for _, c := range []placement.Cluster{
		{}, {
			Name: "a", UID: "u/k", Unhealthy: strings.Repeat("x", 200), Leaving: true, Labels: labels, Properties: many(100, resource.MustParse("1")),
			Taints: slices100(),
		},
	} {
		if got := c.Bounded(); !got.Equal(c) {
			t.Errorf("%+v became %+v", c, got)
		}
	}
}

func slices100() (list []placement.Taint) {
	for i := range 100 {
		list = append(list, placement.Taint{Key: fmt.Sprint("k", i), Value: "v", Effect: placement.NoSchedule})
	}
	return list
}
