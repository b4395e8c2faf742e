package member

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/snapshot"
)

// stumbling is a connection that fails to apply one object.
type stumbling struct {
	backend.ConnWatcher
	over string
}

var errStumbled = errors.New("stumbled")

func (s stumbling) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	if obj.GetName() == s.over {
		return nil, errStumbled
	}
	return s.ConnWatcher.Apply(ctx, obj, o)
}

func (k *kit) stumblingOver(name string) *Applier {
	return k.leader(func(c backend.Conn) backend.Conn { return stumbling{c.(backend.ConnWatcher), name} })
}

// keep returns the assignment that restores the revision in the ledger.
func (k *kit) keep() Assignment {
	l := k.ledger()
	a := k.want("A", l.Epoch, l.Run)
	a.RunUID, a.Attempt, a.keeps = l.RunUID, l.Attempt, true
	a.Strategy = apply.Strategy{WhenToApply: apply.Always}
	return a
}

func (k *kit) restore(u *Applier, a Assignment) (bool, error) {
	k.t.Helper()
	m, err := u.conns.get(k.t.Context(), a.Cluster)
	if err != nil {
		k.t.Fatal(err)
	}
	_, sent, err := u.carryOut(k.t.Context(), m, a)
	return sent, err
}

func (k *kit) valueOf(name string) string {
	obj, err := k.member.Get(snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "app", Name: name})
	if err != nil {
		return err.Error()
	}
	v, _, _ := unstructured.NestedString(obj.Object, "data", "v")
	return v
}

// driftedKit has revision A of run r1, and app/a changed by another client.
func driftedKit(t *testing.T) *kit {
	t.Helper()
	k := newKit(t)
	k.place("A", 3, "r1")
	obj := configMap("app", "a", "theirs")
	if err := k.member.Update(obj); err != nil {
		t.Fatal(err)
	}
	return k
}

// TestIntentOfARepairIsClosedByTheNextRepair checks that repairs are written under an
// intent that says so. Any engine that watches the placement closes such an intent; no run is
// needed.
func TestIntentOfARepairIsClosedByTheNextRepair(t *testing.T) {
	k := driftedKit(t)
	a := k.keep()
	if _, err := k.restore(k.stumblingOver("a"), a); !errors.Is(err, errStumbled) {
		t.Fatal(err)
	}
	if l := k.ledger(); !l.open() || !l.Keeping || l.Target != a.Revision {
		t.Fatalf("%+v", l)
	}
	x := Comparison{Placement: kitPlacement, Cluster: a.Cluster, Key: k.key}
	if seen, err := k.leader(nil).Compare(t.Context(), x); err != nil || seen.State != drift.Updating || seen.Total != 1 {
		t.Errorf("%+v, %v", seen, err)
	}
	sent, err := k.restore(k.leader(nil), a)
	if err != nil || !sent || k.valueOf("a") == "theirs" {
		t.Fatalf("%v, %v, app/a is %q", sent, err, k.valueOf("a"))
	}
	if l := k.ledger(); l.open() || l.Keeping || l.Revision != a.Revision || l.Run != "r1" {
		t.Errorf("%+v", l)
	}
	if sent, err := k.restore(k.leader(nil), a); sent || err != nil {
		t.Errorf("there was nothing to put back: %v, %v", sent, err)
	}
}

// TestRunTakesOverTheIntentOfARepair checks that a run takes over the intent of a repair
// like any other intent.
func TestRunTakesOverTheIntentOfARepair(t *testing.T) {
	k := driftedKit(t)
	if _, err := k.restore(k.stumblingOver("a"), k.keep()); !errors.Is(err, errStumbled) {
		t.Fatal(err)
	}
	r := k.place("B", 4, "r2")
	if l := k.ledger(); !r.Applied || l.open() || l.Keeping || l.Revision != k.revs["B"] || l.Run != "r2" {
		t.Errorf("%+v, %+v", r, l)
	}
}

// TestNothingIsRestoredAfterTheLedgerHasMoved checks that nothing is repaired after a run has
// reached the cluster: neither under the run's epoch, nor for its revision under the same epoch.
func TestNothingIsRestoredAfterTheLedgerHasMoved(t *testing.T) {
	for name, next := range map[string]func(k *kit){
		"another epoch":                    func(k *kit) { k.place("B", 4, "r2") },
		"another revision, the same epoch": func(k *kit) { k.place("B", 3, "r1") },
		"another run, the same revision":   func(k *kit) { k.place("A", 3, "r2") },
		"an intent of the run":             func(k *kit) { _, _ = k.stumblingOver("c").Update(k.t.Context(), k.want("B", 3, "r1")) },
	} {
		t.Run(name, func(t *testing.T) {
			k := driftedKit(t)
			a := k.keep()
			next(k)
			was, l := k.valueOf("a"), *k.ledger()
			sent, err := k.restore(k.leader(nil), a)
			if sent || !errors.Is(err, backend.ErrConflict) && !errors.Is(err, backend.ErrFenced) {
				t.Errorf("%v, %v", sent, err)
			}
			if now := k.valueOf("a"); now != was {
				t.Errorf("app/a was %q and is %q", was, now)
			}
			if now := k.ledger(); now.Revision != l.Revision || now.Phase != l.Phase || now.Epoch != l.Epoch {
				t.Errorf("the ledger was %+v and is %+v", l, now)
			}
		})
	}
}

// TestFieldsSetByAdmissionAreNoDrift checks that the state of an object right after its apply is
// recorded beside the ledger. A field that the member adds then is no drift, and a field that
// another client adds later is.
func TestFieldsSetByAdmissionAreNoDrift(t *testing.T) {
	k := newKit(t)
	admission := k.leader(func(c backend.Conn) backend.Conn { return adding{c.(backend.ConnWatcher), k} })
	k.must(admission, k.want("A", 3, "r1"))
	look := func() drift.ClusterReport {
		t.Helper()
		x := Comparison{
			Placement: kitPlacement, Strategy: apply.Strategy{ComparisonOption: "FullComparison"},
			Cluster: k.want("A", 3, "r1").Cluster, Key: k.key,
		}
		got, err := k.leader(nil).Compare(t.Context(), x)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := look(); got.Total > 0 {
		t.Errorf("%+v", got.Objects)
	}
	obj, err := k.member.Get(snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "app", Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	_ = unstructured.SetNestedField(obj.Object, "x", "data", "later")
	if err := k.member.Update(obj); err != nil {
		t.Fatal(err)
	}
	if got := look(); got.Total != 1 || got.Objects[0].Differences[0].Path != "/data/later" {
		t.Errorf("%+v", got.Objects)
	}
}

// adding is a member whose admission adds a key to ConfigMap app/a.
type adding struct {
	backend.ConnWatcher
	k *kit
}

func (a adding) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	got, err := a.ConnWatcher.Apply(ctx, obj, o)
	if err != nil || obj.GetName() != "a" {
		return got, err
	}
	_ = unstructured.SetNestedField(got.Object, "injected", "data", "webhook")
	if err := a.k.member.Update(got); err != nil {
		return nil, err
	}
	return a.ConnWatcher.Get(ctx, snapshot.IDOf(obj))
}

// interrupted is a connection whose first write to an object arrives only after another action.
type interrupted struct {
	backend.ConnWatcher
	name string
	by   func()
}

func (i *interrupted) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	if by := i.by; obj.GetName() == i.name && by != nil {
		i.by = nil
		by()
	}
	return i.ConnWatcher.Apply(ctx, obj, o)
}

// TestAPausedRepairChangesNothingLater checks that a delayed repair writes nothing
// after a run has reached the cluster, or after another engine has made the repair.
func TestAPausedRepairChangesNothingLater(t *testing.T) {
	for name, c := range map[string]struct {
		by    func(k *kit, a Assignment)
		fails bool
	}{
		"a run":                         {func(k *kit, _ Assignment) { k.place("B", 4, "r2") }, true},
		"a run that removes everything": {func(k *kit, _ Assignment) { k.place("", 4, "r2") }, true},
		"another engine that puts it back": {func(k *kit, a Assignment) {
			if _, err := k.restore(k.leader(nil), a); err != nil {
				k.t.Error(err)
			}
		}, false},
	} {
		for _, at := range []string{kitPlacement, "a"} {
			t.Run(name+" before the write of "+at, func(t *testing.T) {
				k := driftedKit(t)
				a := k.keep()
				var after map[string]*unstructured.Unstructured
				late := k.leader(func(conn backend.Conn) backend.Conn {
					return &interrupted{conn.(backend.ConnWatcher), at, func() { c.by(k, a); after = k.state() }}
				})
				_, err := k.restore(late, a)
				if failed := errors.Is(err, backend.ErrConflict) || errors.Is(err, backend.ErrFenced); failed != c.fails || err != nil && !failed {
					t.Errorf("%v", err)
				}
				if l := k.ledger(); l.open() || l.Keeping {
					t.Errorf("%+v", l)
				}
				for id, obj := range k.state() {
					if was := after[id]; c.fails && (was == nil || was.GetResourceVersion() != obj.GetResourceVersion()) {
						t.Errorf("%s was written later", id)
					}
				}
				if !c.fails && k.valueOf("a") != "1" {
					t.Errorf("app/a is %q", k.valueOf("a"))
				}
			})
		}
	}
}

// TestConcurrentlyCreatedObjectIsNotTakenOver checks that an object which another client created
// during its creation is not taken over if the strategy forbids it.
func TestConcurrentlyCreatedObjectIsNotTakenOver(t *testing.T) {
	k := newKit(t)
	theirs := func() {
		if err := k.member.Update(configMap("app", "a", "theirs")); err != nil {
			t.Error(err)
		}
	}
	u := k.leader(func(conn backend.Conn) backend.Conn { return &interrupted{conn.(backend.ConnWatcher), "a", theirs} })
	a := k.want("A", 3, "r1")
	a.Strategy.WhenToTakeOver = apply.Never
	if _, err := u.Update(t.Context(), a); !errors.Is(err, backend.ErrPermanent) || k.valueOf("a") != "theirs" {
		t.Errorf("%v, app/a is %q", err, k.valueOf("a"))
	}
	for _, o := range k.ledger().Objects {
		if o.Name == "a" {
			t.Errorf("the ledger has %+v", o)
		}
	}
}

// TestABaselineGivesWayToItsLedger checks that a baseline that does not fit beside its ledger is
// omitted, because the ledger matters more.
func TestABaselineGivesWayToItsLedger(t *testing.T) {
	ledger, baseline := strings.Repeat("l", ledgerMost-10), strings.Repeat("b", 11)
	if data := ledgerObjectOf("p", ledger, baseline).Object["data"].(map[string]any); len(data) != 1 || data[ledgerKey] != ledger {
		t.Errorf("%d keys", len(data))
	}
	if data := ledgerObjectOf("p", ledger, baseline[1:]).Object["data"].(map[string]any); len(data) != 2 {
		t.Errorf("%d keys", len(data))
	}
}

// TestAnObjectThatCannotBeComparedIsHeldBack checks that an object which cannot be compared is left
// alone, and causes no immediate retry.
func TestAnObjectThatCannotBeComparedIsHeldBack(t *testing.T) {
	k := newKit(t)
	k.place("A", 3, "r1")
	deep := any("x")
	for range drift.MaxDepth + 1 {
		deep = map[string]any{"x": deep}
	}
	obj := configMap("app", "a", "1")
	obj.Object["data"] = map[string]any{"v": deep}
	k.exists(obj)
	a := k.want("A", 4, "r2")
	a.Strategy.WhenToApply = apply.IfNotDrifted
	if _, err := k.leader(nil).Update(t.Context(), a); !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), "app/a") {
		t.Errorf("%v", err)
	}
}

// TestFieldsAddedBeforeAnUpdateStayDrift checks that an update does not make a field part of the
// baseline that another client added before it.
func TestFieldsAddedBeforeAnUpdateStayDrift(t *testing.T) {
	k := newKit(t)
	k.place("A", 3, "r1")
	obj, err := k.member.Get(snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "app", Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	_ = unstructured.SetNestedField(obj.Object, "x", "data", "earlier")
	if err := k.member.Update(obj); err != nil {
		t.Fatal(err)
	}
	k.place("B", 4, "r2")
	got, err := k.leader(nil).Compare(t.Context(), Comparison{
		Placement: kitPlacement, Strategy: apply.Strategy{ComparisonOption: "FullComparison"},
		Cluster: k.want("B", 4, "r2").Cluster, Key: k.key,
	})
	if err != nil || got.Total != 1 || got.Objects[0].Differences[0].Path != "/data/earlier" {
		t.Errorf("%+v, %v", got.Objects, err)
	}
}
