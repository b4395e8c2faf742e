package upgrade_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/fleet/upgrade/embedded"
	"github.com/slipway-dev/slipway/snapshot"
)

func wantCluster(t *testing.T, c embedded.Cluster, ids, state []string) {
	t.Helper()
	if d := cmp.Diff(ids, begun(&c)); d != "" {
		t.Errorf("changes that were begun (-want +got):\n%s", d)
	}
	if d := cmp.Diff(state, has(&c)); d != "" {
		t.Errorf("what the cluster has (-want +got):\n%s", d)
	}
}

func TestEachTypeUpgradesItsParts(t *testing.T) {
	for name, tc := range map[string]struct {
		target     upgrade.Target
		ids, state []string
	}{
		"full": {
			full(upgrade.Latest),
			[]string{"uid1.1.ControlPlane", "uid1.1.Nodes"},
			[]string{"1.30.2", "1.30.2 i3", "1.30.2 i3"},
		},
		"full, consistent": {
			full(upgrade.Consistent, "i2"),
			[]string{"uid1.1.ControlPlane", "uid1.1.Nodes"},
			[]string{"1.30.2", "1.30.2 i2", "1.30.2 i2"},
		},
		"control plane": {
			upgrade.Target{Type: upgrade.ControlPlaneOnly, KubernetesVersion: "1.30.2"},
			[]string{"uid1.1.ControlPlane"},
			[]string{"1.30.2", "1.29.4 i1", "1.29.4 i1"},
		},
		"images": {
			imagesOnly(""),
			[]string{"uid1.1.Nodes"},
			[]string{"1.29.4", "1.29.4 i3", "1.29.4 i3"},
		},
		"images of a list": {
			imagesOnly(upgrade.Custom, "elsewhere", "i2", "i3"),
			[]string{"uid1.1.Nodes"},
			[]string{"1.29.4", "1.29.4 i2", "1.29.4 i2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := byHand(t, testState("w1"), tc.target)
				r := h.finish()
				if !r.Sent || r.Unchanged || r.Skipped || r.Revision != h.a.Revision || !r.Current || !r.Healthy || r.Failed {
					t.Errorf("%+v", r)
				}
				wantCluster(t, h.cluster(), tc.ids, tc.state)
			})
		})
	}
}

func TestUnfinishedUpgradeIsUnproven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := testState("w1")
		w.Clusters["w1"].Unhealthy.Duration = time.Hour
		h := byHand(t, w, full(upgrade.Latest))
		for _, want := range []string{"control plane has 1.29.4", "node pool system has 1.29.4 i1"} {
			for range 3 { // repetition changes nothing
				if r := h.update(); !r.Sent || r.Applied || r.Current || r.Revision != "" || !strings.Contains(r.Message, want) {
					t.Errorf("while it is under way: %+v", r)
				}
				if r := h.observe(); !r.Sent || r.Applied || r.Current || r.Revision != "" || !strings.Contains(r.Message, want) {
					t.Errorf("while it is under way: %+v", r)
				}
			}
			time.Sleep(takes)
		}
		r := h.observe()
		if !r.Applied || r.Revision != h.a.Revision || !r.Current || r.Healthy || !strings.Contains(r.Message, "not healthy") {
			t.Errorf("there, and not healthy: %+v", r)
		}
		time.Sleep(time.Hour)
		if r = h.observe(); !r.Healthy || !strings.Contains(r.Message, "i3") {
			t.Errorf("there, and healthy, with the images that were chosen: %+v", r)
		}
	})
}

func TestUpToDateClusterIsSkipped(t *testing.T) {
	there := func(w embedded.State, image string) embedded.State {
		c := w.Clusters["w1"]
		c.ControlPlane = "v1.30.2"
		for i := range c.Pools {
			c.Pools[i].Version, c.Pools[i].Image = "1.30.2", image
		}
		c.UnhealthyUntil = time.Now().Add(time.Hour) // not relevant for the updater
		return w
	}
	for name, target := range map[string]upgrade.Target{
		"full": full(""), "control plane": {Type: upgrade.ControlPlaneOnly, KubernetesVersion: "1.30.2"},
		"images": imagesOnly(upgrade.Custom, "i3"), "newer than consistent": full(upgrade.Consistent, "i2"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := byHand(t, there(testState("w1"), "i3"), target)
				r := h.update()
				if !r.Skipped || !r.Unchanged || r.Sent || !r.Applied || r.Revision != h.a.Revision || !strings.Contains(r.Message, "already there") {
					t.Errorf("%+v", r)
				}
				wantCluster(t, h.cluster(), nil, []string{"v1.30.2", "1.30.2 i3", "1.30.2 i3"})
			})
		})
	}
}

func TestAClusterWithoutAConsistentImageIsSkipped(t *testing.T) {
	for _, target := range []upgrade.Target{full(upgrade.Consistent, "i9"), imagesOnly(upgrade.Consistent, "i9")} {
		synctest.Test(t, func(t *testing.T) {
			h := byHand(t, testState("w1"), target)
			r := h.update()
			if !r.Skipped || r.Sent || r.Current || r.Revision != "" || !strings.Contains(r.Message, "i9") || !strings.Contains(r.Message, "west") {
				t.Errorf("%+v", r)
			}
			if r = h.observe(); r.Current || r.Applied || r.Revision != "" {
				t.Errorf("observed: %+v", r)
			}
			wantCluster(t, h.cluster(), nil, []string{"1.29.4", "1.29.4 i1", "1.29.4 i1"})
		})
	}
}

func TestLatestIsFixedAtTheStartOfTheCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := byHand(t, testState("w1"), full(upgrade.Latest))
		h.update()
		h.p.Edit(func(w *embedded.State) { w.Regions["west"].Images[""] = []string{"i4", "i3", "i2"} })
		time.Sleep(takes)
		h.u = upgrade.NewUpdater(h.p) // another engine
		h.finish()
		wantCluster(t, h.cluster(), []string{"uid1.1.ControlPlane", "uid1.1.Nodes"}, []string{"1.30.2", "1.30.2 i3", "1.30.2 i3"})
		h.a.RunUID = "uid2"
		h.finish()
		if c := h.cluster(); c.Pools[0].Image != "i4" {
			t.Errorf("the next run brings image %s", c.Pools[0].Image)
		}
	})
}

func TestFailedOperationIsContinuedByTheNextAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := testState("w1")
		w.Clusters["w1"].Fail, w.Clusters["w1"].Failure = 1, "quota exceeded"
		h := byHand(t, w, full(upgrade.Latest))
		h.update()
		h.p.Edit(func(w *embedded.State) { w.Regions["west"].Images[""] = []string{"i4", "i3"} })
		time.Sleep(takes)
		for range 2 {
			for _, r := range []backend.Proof{h.update(), h.observe()} {
				if !r.Failed || !r.Sent || r.Current || r.Message != "the upgrade failed: quota exceeded" {
					t.Errorf("%+v", r)
				}
			}
		}
		h.a.Attempt = 2
		if r := h.finish(); !r.Healthy || !r.Sent || r.Skipped {
			t.Errorf("the second attempt: %+v", r)
		}
		wantCluster(t, h.cluster(), []string{"uid1.1.ControlPlane", "uid1.2.ControlPlane", "uid1.2.Nodes"}, []string{"1.30.2", "1.30.2 i3", "1.30.2 i3"})
	})
}

func TestALongFailureIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := testState("w1")
		w.Clusters["w1"].Fail, w.Clusters["w1"].Failure = -1, "x"+strings.Repeat("ü", 5000)
		h := byHand(t, w, full(upgrade.Latest))
		if r := h.finish(); !r.Failed || len(r.Message) > 1024 || !utf8.ValidString(r.Message) {
			t.Errorf("%d bytes: %s", len(r.Message), r.Message)
		}
	})
}

func TestAnUpgradeThatEndsElsewhereHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := byHand(t, testState("w1"), full(upgrade.Latest))
		h.update()
		time.Sleep(takes)
		h.edit(func(c *embedded.Cluster) { c.ControlPlane = "1.30.1" })
		r := h.update()
		if !r.Failed || !strings.Contains(r.Message, "the upgrade ended, and still the control plane has 1.30.1") {
			t.Errorf("%+v", r)
		}
	})
}

func TestAnEarlierAttemptIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := byHand(t, testState("w1"), full(upgrade.Latest))
		h.update()
		h.a.Attempt = 2
		if r := h.update(); !r.Sent || r.Failed {
			t.Errorf("%+v", r)
		}
		h.finish()
		wantCluster(t, h.cluster(), []string{"uid1.1.ControlPlane", "uid1.2.Nodes"}, []string{"1.30.2", "1.30.2 i3", "1.30.2 i3"})
	})
}

func TestACleanedClusterIsNotChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := byHand(t, testState("w1"), full(upgrade.Latest))
		h.a.Revision, h.a.Content, h.a.Cluster.Name = "", nil, "gone"
		want := backend.Proof{Applied: true, Unchanged: true, Current: true, Healthy: true}
		for _, r := range []backend.Proof{h.update(), h.observe()} {
			if r != want {
				t.Errorf("%+v", r)
			}
		}
	})
}

func TestTargetIsReadOnceAndRetriedAfterErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := byHand(t, testState("w1"), full(upgrade.Latest))
		read, content := 0, h.a.Content
		h.a.Content = func(ctx context.Context) (snapshot.Set, error) {
			if read++; read == 1 {
				return snapshot.Set{}, errors.New("the store does not answer")
			}
			return content(ctx)
		}
		if _, err := h.refused(); errors.Is(err, backend.ErrPermanent) {
			t.Error(err)
		}
		h.finish()
		if read != 2 {
			t.Errorf("the target was read %d times", read)
		}
	})
}

func TestContentWithoutAnUpgradeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := byHand(t, testState("w1"), full(upgrade.Latest))
		set, err := snapshot.NewSet(nil)
		if err != nil {
			t.Fatal(err)
		}
		h.a.Revision, h.a.Content = set.Digest, func(context.Context) (snapshot.Set, error) { return set, nil }
		if _, err := h.refused(); !errors.Is(err, backend.ErrPermanent) {
			t.Error(err)
		}
		h.a.Content = nil
		if _, err := h.refused(); !errors.Is(err, backend.ErrPermanent) {
			t.Error(err)
		}
	})
}

func TestUpdaterWatchesIfItsProviderDoes(t *testing.T) {
	if _, ok := upgrade.NewUpdater(shelf{}).(backend.UpdaterWatcher); ok {
		t.Error("a provider that cannot watch is watched")
	}
	synctest.Test(t, func(t *testing.T) {
		h := byHand(t, testState("w1"), full(upgrade.Latest))
		h.update()
		start, looks := time.Now(), 0
		for _, err := range h.u.(backend.UpdaterWatcher).Watch(t.Context(), h.a) {
			if err != nil {
				t.Fatal(err)
			}
			if looks++; looks == 2 {
				break
			}
		}
		if d := time.Since(start); d != takes {
			t.Errorf("the end of the change was told after %v", d)
		}
	})
}
