package member

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/health"
	"github.com/slipway-dev/slipway/snapshot"
)

// fateTarget returns a desired object that exists as desired. It is owned if the member's object
// carries the placement's digest.
func fateTarget(t *testing.T, isOwned bool) *target {
	t.Helper()
	set, err := snapshot.NewSet([]*unstructured.Unstructured{configMap("app", "a", "1")})
	if err != nil {
		t.Fatal(err)
	}
	rev, err := NewRevision(kitPlacement, set)
	if err != nil {
		t.Fatal(err)
	}
	out := targetsOf(rev, &ledger{})[0]
	if out.live = out.want.obj; !isOwned {
		out.live = configMap("app", "a", "theirs")
	}
	return out
}

// Each row of the table at fate has its reason for the failing objects of a cluster.
func TestFailingReasonOfEachFate(t *testing.T) {
	planted := errors.New("planted")
	unknown := fmt.Errorf("planted: %w", backend.ErrNoSuchKind)
	for name, c := range map[string]struct {
		fates []fate
		owned bool
		want  apply.FailingReason
	}{
		"nothing":                     {nil, true, ""},
		"nothing, of another writer":  {nil, false, apply.NotApplied},
		"held back, drifted":          {[]fate{fateHeld{why: planted}}, true, apply.HeldDrifted},
		"held back, foreign":          {[]fate{fateHeld{why: planted}}, false, apply.HeldForeign},
		"held back, then waiting":     {[]fate{fateHeld{why: errors.New("held")}, fateWaits{planted}}, true, apply.NotApplied},
		"held back, then refused":     {[]fate{fateHeld{why: errors.New("held")}, fateRefused{unknown}}, true, apply.NoSuchKind},
		"waiting":                     {[]fate{fateWaits{planted}}, true, apply.NotApplied},
		"refused":                     {[]fate{fateRefused{planted}}, true, apply.NotApplied},
		"refused, of an unknown kind": {[]fate{fateRefused{unknown}}, true, apply.NoSuchKind},
		"applied":                     {[]fate{fateApplied{}}, true, ""},
		"applied, then waiting":       {[]fate{fateApplied{}, fateWaits{planted}}, true, apply.NotApplied},
		"applied, then unhealthy":     {[]fate{fateApplied{}, fateUnhealthy{"planted"}}, true, apply.NotHealthy},
	} {
		o := fateTarget(t, c.owned)
		for _, f := range c.fates {
			o.suffer(f)
		}
		got, failing := o.failure(&Assignment{Assignment: backend.Assignment{Placement: kitPlacement}}, true)
		if failing != (c.want != "") || got.Reason != c.want || len(c.fates) > 0 && failing && got.Message == "held" {
			t.Errorf("%s: %+v, %v, want %q", name, got, failing, c.want)
		}
	}
}

// An object that is held back stays held back if it has a problem, so that the ledger does not
// claim an object of another writer.
func TestAnObjectHeldBackStaysHeldBack(t *testing.T) {
	held, planted := errors.New("held"), errors.New("planted")
	for name, c := range map[string]struct {
		fate    fate
		isOwned bool
		want    int // entries of the ledger
	}{
		"foreign, waiting": {fateWaits{planted}, false, 0},
		"foreign, refused": {fateRefused{planted}, false, 0},
		"owned, waiting":   {fateWaits{planted}, true, 1},
	} {
		o := fateTarget(t, c.isOwned)
		o.hold(held)
		o.suffer(c.fate)
		if why := o.heldBack(); !errors.Is(why, held) || !errors.Is(o.problem(), planted) {
			t.Errorf("%s: held back because of %v, with the problem %v", name, why, o.problem())
		}
		w := &work{applyPolicy: applyPolicy{session: session{a: Assignment{Assignment: backend.Assignment{Placement: kitPlacement}}}}, targets: []*target{o}}
		if d := cmp.Diff([]int{c.want, c.want}, []int{len(w.openLedgerEntries()), len(w.closedLedgerEntries())}); d != "" {
			t.Errorf("%s: entries (-want +got):\n%s", name, d)
		}
		if o.hold(nil); o.heldBack() != nil || o.problem() != nil {
			t.Errorf("%s: it is held back no longer, and still %v, %v", name, o.heldBack(), o.problem())
		}
	}
}

// A ledger has an object in Objects, or in Suspects only.
func TestLedgerListOfAnObject(t *testing.T) {
	entry := func(name string) ledgerObject { return ledgerObject{ID: configMapID("app", name)} }
	l := &ledger{Objects: []ledgerObject{entry("a"), entry("b")}, Suspects: []ledgerObject{entry("b"), entry("c")}}
	got := map[string]ledgerList{}
	for _, o := range targetsOf(nil, l) {
		got[o.id.Name] = o.in
	}
	if d := cmp.Diff(map[string]ledgerList{"a": inObjects, "b": inObjects, "c": inSuspects}, got); d != "" {
		t.Errorf("lists (-want +got):\n%s", d)
	}
}

// An object that waits for a server does not wait for an object that is held back. An object that
// waits or was refused counts as not healthy.
func TestFatesThatDelayWaitingObjects(t *testing.T) {
	planted := errors.New("planted")
	for name, c := range map[string]struct {
		fate    fate
		healthy bool
		want    bool // whether it is waited for
	}{
		"nothing, healthy":   {nil, true, false},
		"nothing, unhealthy": {nil, false, true},
		"held back":          {fateHeld{why: planted}, false, false},
		"waiting":            {fateWaits{planted}, true, true},
		"refused":            {fateRefused{planted}, true, true},
		"applied, healthy":   {fateApplied{}, true, false},
		"applied, unhealthy": {fateApplied{}, false, true},
	} {
		o := fateTarget(t, true)
		o.fate = c.fate
		s := &servers{targets: []*target{o}, earlier: map[snapshot.Phase]*healthOf{}, probe: func(context.Context, *target) (health.Status, error) {
			return health.Status{Healthy: c.healthy}, nil
		}}
		before, err := s.healthBefore(t.Context(), snapshot.Admission)
		if err != nil || (len(before.sick) > 0) != c.want {
			t.Errorf("%s: %+v, %v, want it to be waited for: %v", name, before, err, c.want)
		}
	}
}
