package placements

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/snapshot"
)

// The status of a placement of namespaces notifies each cluster that the placement has reached or
// left since the last status. The hub reads all members when it starts, so the first status of an
// older placement notifies none.
func TestReachedClustersAreNotified(t *testing.T) {
	began := time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)
	namespaces := []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "app"}}
	for name, c := range map[string]struct {
		created   time.Time
		selectors []snapshot.Selector
		want      [][]string // after each status, and after the deletion
	}{
		"a new placement": {began.Add(time.Minute), namespaces, [][]string{{"a", "b"}, {"a", "c"}, nil, {"b", "c"}}},
		"an older one":    {began.Add(-time.Minute), namespaces, [][]string{nil, {"a", "c"}, nil, {"b", "c"}}},
		"of other kinds":  {began.Add(time.Minute), []snapshot.Selector{{Version: "v1", Kind: "ConfigMap"}}, [][]string{nil, nil, nil, nil}},
	} {
		r, k := &reached{began: began}, api.Key{Name: "p"}
		obj := &unstructured.Unstructured{Object: map[string]any{}}
		obj.SetCreationTimestamp(metav1.NewTime(c.created))
		p := &fleet.Placement{Selectors: c.selectors}
		var told []string
		tell := func(cluster string) { told = append(told, cluster) }
		got := make([][]string, 0, len(c.want))
		next := func() {
			slices.Sort(told)
			got, told = append(got, told), nil
		}
		proven, tried := fleet.PlacedCluster{Index: 0}, fleet.PlacedCluster{Index: -1, Tried: 0}
		for _, have := range []map[string]fleet.PlacedCluster{
			{"a": proven, "b": proven, "c": tried}, {"a": tried, "b": proven, "c": proven}, {"b": proven, "c": proven},
		} {
			r.update(tell, k, obj, p, have)
			next()
		}
		r.drop(tell, k)
		next()
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// A deleted binding is remembered for the run that evicts its cluster, until that run ends.
func TestUnboundClusterBelongsToItsLastRun(t *testing.T) {
	u, k := &unbound{}, api.Key{Name: "p"}
	u.add(k, "a", "e.1")
	u.add(k, "b", "e.2")
	u.add(k, "a", "e.3")
	u.end(k, "a", "e.1") // another run evicts the cluster again
	if d := cmp.Diff(map[string]string{"a": "e.3", "b": "e.2"}, u.of(k)); d != "" {
		t.Errorf("evicted (-want +got):\n%s", d)
	}
	u.end(k, "a", "e.3")
	if d := cmp.Diff(map[string]string{"b": "e.2"}, u.of(k)); d != "" {
		t.Errorf("after an end (-want +got):\n%s", d)
	}
	if u.drop(k); len(u.of(k)) > 0 {
		t.Errorf("after the placement is forgotten: %v", u.of(k))
	}
}
