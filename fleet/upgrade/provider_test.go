package upgrade_test

import (
	"context"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/fleet/upgrade/embedded"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// soak reports whether the long versions of the tests are requested.
func soak() bool { return os.Getenv("SLIPWAY_SOAK") == "1" }

// takes is the duration of a change of a part.
const takes = time.Minute

// testState returns clusters at 1.29.4 with two node pools each, whose images are outdated. They
// are in region west if their name begins with w, and otherwise in east.
func testState(names ...string) embedded.State {
	w := embedded.State{
		Regions: map[string]*embedded.Region{
			"west": {Images: map[string][]string{"": {"i3", "i2", "i1"}}},
			"east": {Images: map[string][]string{"": {"i2", "i1"}}},
		},
		Versions: []string{"1.29.4", "1.30.1", "1.30.2", "1.31.0"},
		Clusters: map[string]*embedded.Cluster{}, Takes: metav1.Duration{Duration: takes},
	}
	for _, name := range names {
		region := "east"
		if name[0] == 'w' {
			region = "west"
		}
		w.Clusters[name] = &embedded.Cluster{Region: region, ControlPlane: "1.29.4", Pools: []upgrade.Pool{
			{Name: "system", Version: "1.29.4", Image: "i1"}, {Name: "user", Version: "1.29.4", Image: "i1"},
		}}
	}
	return w
}

func full(selection upgrade.Selection, images ...string) upgrade.Target {
	return upgrade.Target{Type: upgrade.Full, KubernetesVersion: "1.30.2", NodeImages: upgrade.NodeImages{Selection: selection, Versions: images}}
}

func imagesOnly(selection upgrade.Selection, images ...string) upgrade.Target {
	return upgrade.Target{Type: upgrade.NodeImageOnly, NodeImages: upgrade.NodeImages{Selection: selection, Versions: images}}
}

// hand calls an updater without an engine.
type hand struct {
	t *testing.T
	p *embedded.Provider
	u backend.Updater
	a backend.Assignment
}

// byHand assigns a target to cluster w1.
func byHand(t *testing.T, w embedded.State, target upgrade.Target) *hand {
	t.Helper()
	p := embedded.New(w, nil)
	return &hand{t, p, upgrade.NewUpdater(p), assigned(t, target)}
}

func assigned(t *testing.T, target upgrade.Target) backend.Assignment {
	t.Helper()
	set, err := snapshot.Capture(t.Context(), upgrade.Source("prod", target), []snapshot.Selector{upgrade.Selector("prod")})
	if err != nil {
		t.Fatal(err)
	}
	return backend.Assignment{
		Placement: "prod", Run: "r1", RunUID: "uid1", Epoch: 1, Attempt: 1,
		Cluster: placement.Cluster{Name: "w1"}, Revision: set.Digest,
		Content: func(context.Context) (snapshot.Set, error) { return set, nil },
	}
}

func (h *hand) update() backend.Proof {
	h.t.Helper()
	r, err := h.u.Update(h.t.Context(), h.a)
	if err != nil {
		h.t.Fatalf("Update: %v", err)
	}
	return r
}

func (h *hand) observe() backend.Proof {
	h.t.Helper()
	r, err := h.u.Observe(h.t.Context(), h.a)
	if err != nil {
		h.t.Fatalf("Observe: %v", err)
	}
	return r
}

// refused updates and returns the proof and the expected error.
func (h *hand) refused() (backend.Proof, error) {
	h.t.Helper()
	r, err := h.u.Update(h.t.Context(), h.a)
	if err == nil {
		h.t.Fatalf("Update: %+v and no error", r)
	}
	return r, err
}

// finish updates until nothing is missing, and returns the last proof.
func (h *hand) finish() backend.Proof {
	h.t.Helper()
	for range 4 {
		if r := h.update(); r.Applied || r.Failed {
			return r
		}
		time.Sleep(takes)
	}
	h.t.Fatal("the cluster does not get there")
	return backend.Proof{}
}

func (h *hand) cluster() embedded.Cluster { return clusterOf(h.t, h.p, "w1") }

func clusterOf(t *testing.T, p *embedded.Provider, name string) embedded.Cluster {
	t.Helper()
	c, ok := p.Cluster(name)
	if !ok {
		t.Fatalf("there is no cluster %s", name)
	}
	return c
}

// edit changes cluster w1.
func (h *hand) edit(f func(*embedded.Cluster)) {
	h.p.Edit(func(w *embedded.State) { f(w.Clusters["w1"]) })
}

// begun returns the IDs of the changes that were begun on a cluster.
func begun(c *embedded.Cluster) (ids []string) {
	for _, o := range c.Begun {
		ids = append(ids, o.Change.ID)
	}
	return ids
}

// has returns the versions and images of a cluster.
func has(c *embedded.Cluster) []string {
	out := []string{c.ControlPlane}
	for _, p := range c.Pools {
		out = append(out, p.Version+" "+p.Image)
	}
	return out
}
