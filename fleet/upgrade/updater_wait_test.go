package upgrade_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/fleet/upgrade/embedded"
	"github.com/slipway-dev/slipway/placement"
)

func TestAnOperationOfAnotherClientIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := byHand(t, testState("w1"), full(upgrade.Latest))
		if err := h.p.Occupy("w1", "scaling", time.Hour); err != nil {
			t.Fatal(err)
		}
		r, err := h.refused()
		if r.Sent || errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), "scaling") {
			t.Errorf("%+v, %v", r, err)
		}
		wantCluster(t, h.cluster(), nil, []string{"1.29.4", "1.29.4 i1", "1.29.4 i1"})
		time.Sleep(time.Hour)
		h.finish()
		if err := h.p.Occupy("w1", "scaling", time.Hour); err != nil {
			t.Fatal(err)
		}
		if r := h.observe(); !r.Applied || !r.Current || r.Healthy || r.Skipped || !strings.Contains(r.Message, "scaling") {
			t.Errorf("while another client works on a cluster that is there: %+v", r)
		}
		if r := h.update(); r.Healthy || !r.Current || r.Skipped {
			t.Errorf("updated again meanwhile: %+v", r)
		}
		h.a.RunUID = "uid2"
		if r, err = h.refused(); r.Skipped || r.Sent || errors.Is(err, backend.ErrPermanent) {
			t.Errorf("the next run: %+v, %v", r, err)
		}
	})
}

// busyProvider has another client that is faster than every change.
type busyProvider struct{ *embedded.Provider }

func (b busyProvider) Begin(ctx context.Context, c placement.Cluster, change upgrade.Change) error {
	if err := b.Occupy(c.Name, "scaling", time.Hour); err != nil {
		return err
	}
	return b.Provider.Begin(ctx, c, change)
}

func TestConcurrentOperationIsAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := byHand(t, testState("w1"), full(upgrade.Latest))
		h.u = upgrade.NewUpdater(busyProvider{h.p})
		if r, err := h.refused(); r.Sent || !errors.Is(err, backend.ErrConflict) || errors.Is(err, backend.ErrPermanent) {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestAClusterThatCannotBeReachedIsNotChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := byHand(t, testState("w1"), full(upgrade.Latest))
		h.p.Edit(func(w *embedded.State) { w.Regions["west"].Unavailable = true })
		if r, err := h.refused(); r.Sent || errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), "west") {
			t.Errorf("%+v, %v", r, err)
		}
		h.p.Edit(func(w *embedded.State) { w.Regions["west"].Unavailable = false })
		h.finish()
	})
}

func TestVersionNotOfferedYetIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := testState("w1")
		w.Versions = []string{"1.30.1"}
		h := byHand(t, w, full(upgrade.Latest))
		if r, err := h.refused(); r.Sent || errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), "is not offered") {
			t.Errorf("a version: %+v, %v", r, err)
		}
		h.p.Edit(func(w *embedded.State) { w.Versions = append(w.Versions, "1.30.2") })
		h.finish()
		h.a = assigned(t, imagesOnly(upgrade.Custom, "i5"))
		h.a.RunUID = "uid2"
		if r, err := h.refused(); r.Sent || r.Skipped || errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), "i5") {
			t.Errorf("an image: %+v, %v", r, err)
		}
	})
}

func TestAnUpgradeThatIsNotAllowedBeginsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := byHand(t, testState("w1"), full(upgrade.Latest))
		h.edit(func(c *embedded.Cluster) { c.ControlPlane = "1.31.0" })
		r, err := h.refused()
		if _, ok := errors.AsType[*upgrade.RefusedError](err); !ok || r.Sent || !errors.Is(err, backend.ErrPermanent) {
			t.Errorf("%+v, %v", r, err)
		}
		wantCluster(t, h.cluster(), nil, []string{"1.31.0", "1.29.4 i1", "1.29.4 i1"})
	})
}

func TestProviderRefusalIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := byHand(t, testState("w1"), full(upgrade.Latest))
		h.edit(func(c *embedded.Cluster) { c.Refuse = "the subscription is suspended" })
		if r, err := h.refused(); r.Sent || !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), "suspended") {
			t.Errorf("%+v, %v", r, err)
		}
		h.a.Cluster.Name = "w9"
		if r, err := h.refused(); r.Sent || !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), "w9") {
			t.Errorf("a cluster that is not there: %+v, %v", r, err)
		}
	})
}

// lostProvider begins changes and returns an error nevertheless.
type lostProvider struct{ *embedded.Provider }

func (l lostProvider) Begin(ctx context.Context, c placement.Cluster, change upgrade.Change) error {
	return errors.Join(l.Provider.Begin(ctx, c, change), errors.New("connection reset"))
}

func TestAChangeThatMayHaveBegunIsNotBegunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := byHand(t, testState("w1"), full(upgrade.Latest))
		good := h.u
		h.u = upgrade.NewUpdater(lostProvider{h.p})
		if r, err := h.refused(); !r.Sent || errors.Is(err, backend.ErrPermanent) {
			t.Errorf("%+v, %v", r, err)
		}
		h.u = good
		h.finish()
		wantCluster(t, h.cluster(), []string{"uid1.1.ControlPlane", "uid1.1.Nodes"}, []string{"1.30.2", "1.30.2 i3", "1.30.2 i3"})
	})
}

func TestAnOlderEpochBeginsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := byHand(t, testState("w1", "w2"), full(upgrade.Latest))
		newer := *h
		newer.a.Epoch, newer.a.Cluster.Name = 3, "w2"
		newer.update()
		h.a.Epoch = 2
		if r, err := h.refused(); r.Sent || !errors.Is(err, backend.ErrFenced) {
			t.Errorf("%+v, %v", r, err)
		}
		h.a.Placement = "test" // epochs of different placements are not compared
		h.finish()
	})
}
