package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
)

// hostile returns an inventory that adds clusters with excessive data, or with names that cannot be
// clusters, to those of inner.
func hostile(inner backend.Inventory) backend.Inventory {
	long := strings.Repeat("x", 1<<20)
	labels := map[string]string{"environment": "staging"}
	for i := range 20_000 {
		labels[fmt.Sprintf("k%d", i)] = "v"
	}
	bad := []placement.Cluster{
		{Name: "many", Labels: labels},
		{Name: "uid", UID: long},
		{Name: "value", Labels: map[string]string{"environment": "staging", "a": long}},
		{Name: long},
		{Name: "Not.A.Label\n"},
		{Name: ""},
	}
	return backend.InventoryFunc(func(ctx context.Context) iter.Seq2[placement.Cluster, error] {
		return func(yield func(placement.Cluster, error) bool) {
			for _, c := range bad {
				if !yield(c, nil) {
					return
				}
			}
			inner.Clusters(ctx)(yield)
		}
	})
}

// Excessive data about one cluster concerns only that cluster: it is not picked, with a reason, and
// the others are planned as usual.
func TestOversizedClusterAffectsNoOther(t *testing.T) {
	w, e := declared(t, nil)
	w.capture(e, "v0")
	want := must(e.Preview(t.Context(), specOf("r", 0)))(t).Plan
	e = w.newEngine(fleet.Config{Inventory: hostile(w.fleet)})
	got := must(e.Preview(t.Context(), specOf("r", 0)))(t).Plan
	if got.Digest != want.Digest {
		t.Errorf("the plan has the clusters %v, want %v", got.Clusters, want.Clusters)
	}
	warnings := strings.Join(got.Warnings, "\n")
	if !strings.Contains(warnings, "names are no DNS labels (RFC 1123) are left out, 3 of them") || len(warnings) > 1000 {
		t.Errorf("warnings: %.2000s", warnings)
	}
	r := must(e.Placement(ep).PreviewResolve(t.Context(), nil))(t)
	for name, reason := range map[string]string{"many": "too much is said of it: 20001 labels", "uid": "a UID of 1048576 bytes", "value": "2 labels, 1 too long"} {
		i := slices.IndexFunc(r.Evaluations, func(v placement.Evaluation) bool { return v.Cluster == name })
		if i < 0 || r.Evaluations[i].Picked || !strings.Contains(r.Evaluations[i].Reason, reason) {
			t.Errorf("%s: %+v, want it not picked since %s", name, r.Evaluations, reason)
		}
	}
}

// An inventory with a duplicate name is refused, and the error has the name.
func TestBadInventories(t *testing.T) {
	w, e := declared(t, nil)
	w.capture(e, "v0")
	down := errors.New("the registry is down")
	for what, c := range map[string]struct {
		clusters []placement.Cluster
		err      error
		want     []string
	}{
		"a name twice": {clusters: []placement.Cluster{{Name: "a"}, {Name: "b"}, {Name: "a"}}, want: []string{"clusters[a].name: Duplicate"}},
		"an error":     {clusters: []placement.Cluster{{Name: "a"}}, err: down, want: []string{"inventory: the registry is down"}},
	} {
		inventory := backend.InventoryFunc(func(context.Context) iter.Seq2[placement.Cluster, error] {
			return func(yield func(placement.Cluster, error) bool) {
				for _, cl := range c.clusters {
					if !yield(cl, nil) {
						return
					}
				}
				if c.err != nil {
					yield(placement.Cluster{}, c.err)
				}
			}
		})
		e := w.newEngine(fleet.Config{Inventory: inventory})
		refused(t, w.store, what, func() error { return second1(e.CreateRun(t.Context(), specOf("r", 0))) }, append(c.want, "run r")...)
	}
	p := tutorialPlacement()
	p.Policy = placement.Policy{Type: placement.PickFixed, ClusterNames: []string{"member1", "member8", "member9"}}
	if err := e.PutPlacement(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	run := must(e.CreateRun(t.Context(), specOf("r", 0)))(t)
	if got := run.Plan.Warnings; len(run.Plan.Clusters) != 1 || run.Plan.Clusters[0].Name != "member1" || !strings.Contains(strings.Join(got, "\n"), "Not picked: member8, member9, since it is not in the inventory") {
		t.Errorf("of names of which one is there, the plan has %d clusters and warns %q", len(run.Plan.Clusters), got)
	}
}
