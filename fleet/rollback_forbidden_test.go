package fleet_test

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// onceAllowed returns a fleet in which snapshot 0 has a Secret, an own value for the b clusters and
// an own token for the second of them. Snapshot 1 is in the first stage, and snapshot 2 everywhere.
// All of it was allowed at that time.
func onceAllowed(t *testing.T) *engineEnv {
	w := fourStages(t)
	login := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "login", "namespace": "test-namespace"},
	}}
	must(0, w.source.Put(login))(t)
	e := w.engine(w.store, "one")
	defer running(t, e)()
	p := tutorialPlacement()
	p.Overrides = []placement.Override{replaceFor("eb", "own")}
	must(0, e.PutPlacement(t.Context(), p))(t)
	ranTo(t, e, inAll("r0"), stages.Completed)
	w.source.Delete(snapshot.IDOf(login))
	must(0, e.PutPlacement(t.Context(), tutorialPlacement()))(t)
	w.holds("v1")
	ranTo(t, e, fleet.RunSpec{Name: "r1", Placement: ep, Strategy: inStages(nil, 1)}, stages.Completed)
	w.holds("v2")
	ranTo(t, e, inAll("r2"), stages.Completed)
	return w
}

// A rollback does not restore objects that the host now forbids: the clusters that had them stay
// unchanged and are named with the object and the reason, and all other clusters go back.
func TestARollbackAppliesNothingForbidden(t *testing.T) {
	everyCluster := everywhere("v2")
	for name, c := range map[string]struct {
		cfg    fleet.Config
		want   map[string]string // what differs from v2 afterwards
		reason string
		kept   int
	}{
		"rules": {
			fleet.Config{Rules: snapshot.Rules{Never: []snapshot.GroupKind{{Kind: "Secret"}}}},
			map[string]string{"s1a": "v1", "s1b": "v1"},
			"snapshot 0 has Secret.v1 test-namespace/login, which Config.Rules do not let be placed", 6,
		},
		"restrictions": {
			fleet.Config{Restrictions: []placement.Restriction{{Kind: "ConfigMap", Paths: []string{"/data/*"}}}},
			map[string]string{"s1a": "v1", "s1b": "v1", "s2a": "v0", "s3a": "v0", "s4a": "v0"},
			"what overrides made of ConfigMap.v1 test-namespace/test-cm in snapshot 0: the host forbids overrides to change /data/* of ConfigMap", 3,
		},
		"an object that may not be selected": {
			fleet.Config{Restrictions: []placement.Restriction{{Kind: "ConfigMap"}}},
			map[string]string{"s1a": "v1", "s1b": "v1", "s2a": "v0", "s3a": "v0", "s4a": "v0"},
			"what overrides made of ConfigMap.v1 test-namespace/test-cm in snapshot 0: the host forbids overrides to select ConfigMap", 3,
		},
		"what an override of a namespace may not change": {
			fleet.Config{NamespaceRules: &snapshot.Rules{Never: []snapshot.GroupKind{{Kind: "ConfigMap"}}}},
			map[string]string{"s1a": "v1", "s1b": "v1", "s2a": "v0", "s3a": "v0", "s4a": "v0"},
			"what overrides made of ConfigMap.v1 test-namespace/test-cm in snapshot 0: Config.NamespaceRules do not let override test-namespace/o change it", 3,
		},
		"another path": {
			fleet.Config{Restrictions: []placement.Restriction{{Kind: "ConfigMap", Paths: []string{"/data/other"}}}},
			map[string]string{"s1a": "v1", "s1b": "v1", "s2a": "v0", "s2b": "own", "s3a": "v0", "s3b": "own", "s4a": "v0", "s4b": "own"},
			"", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := onceAllowed(t)
				c.cfg.Name = "strict"
				strict := w.newEngine(c.cfg)
				defer running(t, strict)()
				preview := must(strict.Run("r2").PreviewRollback(t.Context()))(t)
				must(strict.Run("r2").Rollback(t.Context(), fleet.RollbackOptions{By: approval.Identity{Name: "ann"}}))(t)
				back := endOfRollback(t, strict, "r2")
				if back.Run.State != stages.Completed || back.Plan.Digest != preview.Digest {
					t.Errorf("%s is %s, of the plan that was previewed: %v", back.Run.Name, back.Run.State, back.Plan.Digest == preview.Digest)
				}
				want := map[string]string{}
				for cluster, value := range everyCluster {
					want[cluster] = value
					if v, ok := c.want[cluster]; ok {
						want[cluster] = v
					}
				}
				wantValues(t, w, want)
				var kept []stages.KeptClusters
				for _, k := range back.Plan.Rollback.Kept {
					k.Clusters = nil
					kept = append(kept, k)
				}
				var told []stages.KeptClusters
				if c.reason != "" {
					told = []stages.KeptClusters{{Reason: c.reason, Count: c.kept}}
				}
				if d := cmp.Diff(told, kept); d != "" {
					t.Errorf("kept (-want +got):\n%s", d)
				}
			})
		})
	}
}

// If no cluster may go back, the rollback is refused with the reason, and nothing changes.
func TestRollbackToForbiddenContentIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := onceAllowed(t)
		strict := w.newEngine(fleet.Config{Name: "strict", Rules: snapshot.Rules{Never: []snapshot.GroupKind{{Kind: "Secret"}, {Kind: "ConfigMap"}}}})
		refused(t, w.store, "a rollback", func() error {
			_, err := strict.Run("r2").Rollback(t.Context(), fleet.RollbackOptions{})
			return err
		}, "2 keep their revision: snapshot 1 has ConfigMap.v1 test-namespace/test-cm", "6 keep their revision: snapshot 0 has", "Config.Rules")
		wantValues(t, w, everywhere("v2"))
	})
}
