package member

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

func wantObjects(t *testing.T, k *kit, want map[string]string) {
	t.Helper()
	if d := cmp.Diff(want, k.objects()); d != "" {
		t.Errorf("objects of the member (-want +got):\n%s", d)
	}
}

func TestUpdateProves(t *testing.T) {
	k := newKit(t)
	r := k.place("A", 1, "r1")
	want := backend.Proof{Sent: true, Applied: true, Revision: k.revs["A"], Current: true, Healthy: true}
	if r != want {
		t.Errorf("first update: %+v, want %+v", r, want)
	}
	wantObjects(t, k, k.expected("A", false))
	l := k.ledger()
	if l.Phase != ledgerApplied || l.Revision != k.revs["A"] || l.Epoch != 1 || len(l.Objects) != 3 || l.Run != "r1" {
		t.Errorf("ledger: %+v", l)
	}
	for _, o := range l.Objects {
		if o.Adopted || o.UID == "" {
			t.Errorf("ledger object: %+v", o)
		}
	}
	if got, err := k.leader(nil).Observe(t.Context(), k.want("A", 1, "r1")); err != nil || got != want {
		t.Errorf("observe: %+v, %v, want %+v", got, err, want)
	}
}

func TestUpdateTwiceWritesNothing(t *testing.T) {
	k := newKit(t)
	k.place("A", 1, "r1")
	k.member.Record(true)
	if r := k.place("A", 1, "r1"); r.Unchanged || !r.Sent || !r.Applied {
		t.Errorf("a second update of the run that changed it: %+v, it must not claim that the run changed nothing", r)
	}
	if log := k.member.Log(); len(log) != 0 {
		t.Errorf("a second update wrote %v", log)
	}
	r := k.place("A", 2, "r2")
	if !r.Unchanged || r.Sent || !r.Applied || !r.Current || !r.Healthy {
		t.Errorf("an update by the next run: %+v", r)
	}
	if log := k.member.Log(); len(log) != 1 || log[0].ID != ledgerID(kitPlacement) {
		t.Errorf("an update that changes nothing must write the epoch and nothing else, wrote %v", log)
	}
	if l := k.ledger(); l.Epoch != 2 || l.Run != "r1" {
		t.Errorf("ledger: %+v", l)
	}
}

func TestEveryObjectIsAppliedOnce(t *testing.T) {
	k := newKit(t)
	for _, rev := range []string{"A", "B", "C", "D", "A", ""} {
		k.member.Record(true)
		k.place(rev, 1, "r-"+rev)
		seen := map[string]int{}
		for _, w := range k.member.Log() {
			seen[w.ID.String()]++
		}
		for id, n := range seen {
			if most := map[bool]int{true: 2, false: 1}[strings.Contains(id, LedgerNamespace+"/")]; n > most {
				t.Errorf("to %q: %s was written %d times", rev, id, n)
			}
		}
		k.member.Record(false)
	}
}

func TestOlderEpochIsFenced(t *testing.T) {
	k := newKit(t)
	k.place("A", 5, "r1")
	k.member.Record(true)
	for _, rev := range []string{"A", "B", ""} {
		r, err := k.leader(nil).Update(t.Context(), k.want(rev, 4, "r0"))
		if !errors.Is(err, backend.ErrFenced) || r.Sent {
			t.Errorf("update to %q: %+v, %v", rev, r, err)
		}
		if _, err := k.leader(nil).Observe(t.Context(), k.want(rev, 4, "r0")); !errors.Is(err, backend.ErrFenced) {
			t.Errorf("observe of %q: %v", rev, err)
		}
	}
	if log := k.member.Log(); len(log) != 0 {
		t.Errorf("a fenced leader wrote %v", log)
	}
}

func TestPruneDeletesTheCreatedAndReleasesTheAdopted(t *testing.T) {
	k := newKit(t)
	k.place("A", 1, "r1")
	k.place("B", 1, "r2")
	wantObjects(t, k, k.expected("B", false))
	k.place("C", 1, "r3")
	wantObjects(t, k, k.expected("C", false))
	k.place("D", 1, "r4")
	wantObjects(t, k, k.expected("D", true))
	x, err := k.member.Get(configMapID("default", "x"))
	if err != nil {
		t.Fatal(err)
	}
	if len(x.GetLabels()) != 0 || len(x.GetAnnotations()) != 0 {
		t.Errorf("a released object keeps marks: %v %v", x.GetLabels(), x.GetAnnotations())
	}
	r := k.place("", 1, "r5")
	told := "Namespace.v1 pre: not deleted: it was there before, and the placement deletes only what it created"
	if want := (backend.Proof{Sent: true, Applied: true, Current: true, Healthy: true, Released: told}); r != want {
		t.Errorf("removal: %+v, want %+v", r, want)
	}
	wantObjects(t, k, k.expected("", true))
	if l := k.ledger(); l.Phase != ledgerRemoved || len(l.Objects) != 0 {
		t.Errorf("ledger: %+v", l)
	}
}

func TestRemovalOfNothingFencesToo(t *testing.T) {
	k := newKit(t)
	if r := k.place("", 3, "r1"); !r.Unchanged || !r.Healthy || !r.Applied {
		t.Errorf("%+v", r)
	}
	if _, err := k.leader(nil).Update(t.Context(), k.want("A", 2, "r0")); !errors.Is(err, backend.ErrFenced) {
		t.Errorf("an older leader after a removal of nothing: %v", err)
	}
}

func TestDriftIsCorrected(t *testing.T) {
	k := newKit(t)
	k.place("A", 1, "r1")
	k.exists(configMap("app", "a", "edited"))
	r, err := k.leader(nil).Observe(t.Context(), k.want("A", 1, "r1"))
	if err != nil || r.Current || r.Healthy || !strings.Contains(r.Message, "app/a") {
		t.Errorf("observe after an edit: %+v, %v", r, err)
	}
	if err := k.member.Delete(configMapID("app", "b")); err != nil {
		t.Fatal(err)
	}
	k.place("A", 1, "r1")
	wantObjects(t, k, k.expected("A", false))
	k.place("", 1, "r2")
	wantObjects(t, k, k.expected("", false))
}

// TestReplacedObjectIsAdopted checks that an object of another client that replaced our object is
// adopted.
func TestReplacedObjectIsAdopted(t *testing.T) {
	k := newKit(t)
	k.place("A", 1, "r1")
	if err := k.member.Delete(configMapID("app", "a")); err != nil {
		t.Fatal(err)
	}
	k.exists(configMap("app", "a", "theirs"))
	k.place("A", 1, "r2")
	k.place("B", 1, "r3")
	k.revision("E", configMap("default", "other", "1"))
	k.place("E", 1, "r4")
	if got := k.objects()["ConfigMap/default/other"]; got != "1+ours" {
		t.Errorf("default/other is %q", got)
	}
}

func TestAnotherClientCreatesFirst(t *testing.T) {
	k := newKit(t)
	done := false
	u := k.leader(hook(func(op string, id snapshot.ID) {
		if op == "apply" && id.Name == "b" && !done {
			done = true
			k.exists(configMap("app", "b", "theirs"))
		}
	}))
	k.must(u, k.want("A", 1, "r1"))
	wantObjects(t, k, k.expected("A", false))
	for _, o := range k.ledger().Objects {
		if o.Adopted != (o.Name == "b") {
			t.Errorf("ledger: %s adopted %v", o.ID, o.Adopted)
		}
	}
	k.place("B", 1, "r2")
	if got, ok := k.objects()["ConfigMap/app/b"]; !ok || got != "1" {
		t.Errorf("what another client created is %q, it must be released", got)
	}
}

func TestOtherPlacementIsRefused(t *testing.T) {
	k := newKit(t)
	x := configMap("default", "x", "theirs")
	x.SetAnnotations(map[string]string{digestMark + "shop": "d"})
	k.exists(x)
	k.member.Record(true)
	r, err := k.leader(nil).Update(t.Context(), k.want("C", 1, "r1"))
	if !errors.Is(err, backend.ErrPermanent) || r.Sent || !strings.Contains(err.Error(), "default/x") || !strings.Contains(err.Error(), "shop") {
		t.Errorf("%+v, %v", r, err)
	}
	for _, w := range k.member.Log() {
		if w.ID != ledgerID(kitPlacement) && w.ID.Name != LedgerNamespace {
			t.Errorf("a refused update wrote %v", w)
		}
	}
	a := k.want("C", 1, "r1")
	a.AllowCoOwnership = true
	k.must(k.leader(nil), a)
	wantObjects(t, k, k.expected("C", false))
	k.place("", 1, "r2")
	got, err := k.member.Get(configMapID("default", "x"))
	if err != nil {
		t.Fatal(err)
	}
	if got.GetAnnotations()[digestMark+"shop"] != "d" || carries(got, kitPlacement) {
		t.Errorf("after the release: annotations %v", got.GetAnnotations())
	}
}

// TestCoOwnedIsReleased checks that an object which the placement created and another placement
// applies, too, is not deleted.
func TestCoOwnedIsReleased(t *testing.T) {
	k := newKit(t)
	k.place("A", 1, "r1")
	b := configMap("app", "b", "1")
	b.SetAnnotations(map[string]string{digestMark + "shop": "d", digestMark + kitPlacement: annotationOn(k, "b")})
	k.exists(b)
	k.place("B", 1, "r2")
	if got, ok := k.objects()["ConfigMap/app/b"]; !ok || got != "1" {
		t.Errorf("app/b is %q, %v", got, ok)
	}
}

func annotationOn(k *kit, name string) string {
	obj, err := k.member.Get(configMapID("app", name))
	if err != nil {
		k.t.Fatal(err)
	}
	return annotation(obj, digestMark+kitPlacement)
}

func TestRefusedObjectDoesNotBlockOthers(t *testing.T) {
	k := newKit(t)
	k.place("A", 1, "r1")
	k.member.Refuse(func(obj *unstructured.Unstructured) error {
		if obj.GetName() == "a" {
			return errors.New("admission says no")
		}
		return nil
	})
	r, err := k.leader(nil).Update(t.Context(), k.want("B", 1, "r2"))
	if !errors.Is(err, backend.ErrPermanent) || !r.Sent || !strings.Contains(err.Error(), "app/a") {
		t.Errorf("%+v, %v", r, err)
	}
	got := k.objects()
	if got["ConfigMap/app/c"] != "1+ours" || got["ConfigMap/app/b"] != "1+ours" {
		t.Errorf("the others must be applied and nothing pruned: %v", got)
	}
	if l := k.ledger(); l.Phase != ledgerApplying || l.Revision != "" {
		t.Errorf("ledger: %+v", l)
	}
	k.member.Refuse(nil)
	k.place("B", 1, "r2")
	wantObjects(t, k, k.expected("B", false))
}

func TestMissingNamespaceIsPermanent(t *testing.T) {
	k := newKit(t)
	k.revision("N", configMap("nowhere", "a", "1"))
	_, err := k.leader(nil).Update(t.Context(), k.want("N", 1, "r1"))
	if !errors.Is(err, backend.ErrPermanent) || errors.Is(err, backend.ErrNotFound) || !strings.Contains(err.Error(), "nowhere") {
		t.Error(err)
	}
}

func TestFinalizersHoldARemovalUp(t *testing.T) {
	k := newKit(t)
	b := configMap("default", "held", "1")
	k.revision("F", b)
	k.place("F", 1, "r1")
	held := b.DeepCopy()
	held.SetFinalizers([]string{"example.com/hold"})
	held.SetAnnotations(map[string]string{digestMark + kitPlacement: "d"})
	k.exists(held)
	u, a := k.leader(nil), k.want("", 1, "r2")
	if r := k.must(u, a); r.Healthy || r.Current || !strings.Contains(r.Message, "default/held") {
		t.Errorf("removal with a finalizer: %+v", r)
	}
	if r, err := u.Observe(t.Context(), a); err != nil || r.Healthy || !r.Applied {
		t.Errorf("observe: %+v, %v", r, err)
	}
	now, err := k.member.Get(configMapID("default", "held"))
	if err != nil {
		t.Fatal(err)
	}
	now.SetFinalizers(nil)
	k.exists(now)
	if r, err := u.Observe(t.Context(), a); err != nil || !r.Healthy || !r.Current || !r.Applied || r.Revision != "" {
		t.Errorf("observe once it is gone: %+v, %v", r, err)
	}
}

func TestTerminatingNamespaceCountsAsRemoved(t *testing.T) {
	k := newKit(t)
	k.place("A", 1, "r1")
	pin := configMap("app", "pinned", "theirs")
	pin.SetFinalizers([]string{"example.com/hold"})
	k.exists(pin)
	if r := k.place("", 1, "r2"); !r.Healthy || !r.Applied {
		t.Errorf("%+v", r)
	}
	if got := k.objects()["Namespace/app"]; !strings.Contains(got, "terminating") {
		t.Errorf("namespace app is %q", got)
	}
}

// TestATerminatingNamespaceIsNotRemoved checks that a namespace counts as present while a finalizer
// holds it, or while its controller says so.
func TestATerminatingNamespaceIsNotRemoved(t *testing.T) {
	for name, c := range map[string]struct {
		hold func(ns *unstructured.Unstructured)
		want string
	}{
		"by a finalizer": {func(ns *unstructured.Unstructured) {}, "finalizer example.com/hold"},
		"by its content": {func(ns *unstructured.Unstructured) {
			_ = unstructured.SetNestedSlice(ns.Object, []any{map[string]any{
				"type": "NamespaceContentRemaining", "status": "True", "message": "Some resources are remaining: configmaps. has 1 resource instances",
			}}, "status", "conditions")
		}, "finalizer example.com/hold; Some resources are remaining: configmaps. has 1 resource instances"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			k.place("A", 1, "r1")
			id := snapshot.IDOf(namespaceObject("app"))
			edit := func(change func(ns *unstructured.Unstructured)) {
				t.Helper()
				ns, err := k.member.Get(id)
				if err != nil {
					t.Fatal(err)
				}
				change(ns)
				k.exists(ns)
				status, told := ns.Object["status"].(map[string]any)
				if told && len(ns.GetFinalizers()) > 0 {
					if err := k.member.SetStatus(id, status); err != nil {
						t.Fatal(err)
					}
				}
			}
			edit(func(ns *unstructured.Unstructured) { ns.SetFinalizers([]string{"example.com/hold"}); c.hold(ns) })
			want := "Namespace.v1 app is still there, its deletion waits for " + c.want
			a := k.want("", 2, "r2")
			a.Final = true
			for range 2 {
				if r := k.must(k.leader(nil), a); r.Current || r.Healthy || r.Message != want {
					t.Errorf("%+v, want %q", r, want)
				}
			}
			if r, err := k.leader(nil).Observe(t.Context(), a); err != nil || r.Current || r.Message != want {
				t.Errorf("observe: %+v, %v", r, err)
			}
			edit(func(ns *unstructured.Unstructured) { ns.SetFinalizers(nil) })
			if r := k.must(k.leader(nil), a); !r.Current || !r.Healthy {
				t.Errorf("once it is gone: %+v", r)
			}
			if _, err := k.member.Get(ledgerID(kitPlacement)); err == nil {
				t.Error("the ledger is left")
			}
		})
	}
}

func TestHealthIsProbed(t *testing.T) {
	k := newKit(t)
	d := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "web", "namespace": "default"},
		"spec":     map[string]any{"replicas": int64(2)},
	}}
	id := snapshot.IDOf(d)
	k.revision("W", d)
	u, a := k.leader(nil), k.want("W", 1, "r1")
	if r := k.must(u, a); !r.Current || r.Healthy || r.Failed || !strings.Contains(r.Message, "default/web") {
		t.Errorf("a deployment without a status: %+v", r)
	}
	ready := map[string]any{
		"observedGeneration": int64(1), "replicas": int64(2), "readyReplicas": int64(2), "updatedReplicas": int64(2), "availableReplicas": int64(2),
		"conditions": []any{map[string]any{"type": "Available", "status": "True"}},
	}
	if err := k.member.SetStatus(id, ready); err != nil {
		t.Fatal(err)
	}
	if r, err := u.Observe(t.Context(), a); err != nil || !r.Healthy || !r.Current {
		t.Errorf("a ready deployment: %+v, %v", r, err)
	}
	late := map[string]any{"observedGeneration": int64(1), "conditions": []any{
		map[string]any{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"},
	}}
	if err := k.member.SetStatus(id, late); err != nil {
		t.Fatal(err)
	}
	if r, err := u.Observe(t.Context(), a); err != nil || r.Healthy || !r.Failed {
		t.Errorf("a deployment past its deadline: %+v, %v", r, err)
	}
}

func TestReservedNamespaceCannotBePlaced(t *testing.T) {
	k := newKit(t)
	k.revision("L", configMap(LedgerNamespace, kitPlacement, "1"))
	k.revision("M", namespaceObject(LedgerNamespace))
	for _, rev := range []string{"L", "M"} {
		if _, err := k.leader(nil).Update(t.Context(), k.want(rev, 1, "r1")); !errors.Is(err, backend.ErrPermanent) {
			t.Errorf("%s: %v", rev, err)
		}
	}
}

func TestWatchReportsObjectsAndLedger(t *testing.T) {
	k := newKit(t)
	k.place("A", 1, "r1")
	u := k.leader(nil)
	steps := []func(){
		func() { k.exists(configMap("app", "a", "edited")) },
		func() { k.place("", 1, "r2") },
	}
	for _, err := range u.Watch(t.Context(), k.want("A", 1, "r1")) {
		if err != nil {
			t.Fatal(err)
		}
		if len(steps) == 0 {
			break
		}
		steps[0]()
		steps = steps[1:]
	}
	u.conns.Close()
}

var _ Watcher = (*Applier)(nil)

// TestNonsenseFromAMember checks that a nonsensical answer of a member leads to an error, not to a
// write.
func TestNonsenseFromAMember(t *testing.T) {
	for name, spoil := range map[string]func(*unstructured.Unstructured) *unstructured.Unstructured{
		"nothing": func(*unstructured.Unstructured) *unstructured.Unstructured { return nil },
		"another object": func(*unstructured.Unstructured) *unstructured.Unstructured {
			return configMap("default", "bystander", "")
		},
		"no uid":             func(o *unstructured.Unstructured) *unstructured.Unstructured { o.SetUID(""); return o },
		"no resourceVersion": func(o *unstructured.Unstructured) *unstructured.Unstructured { o.SetResourceVersion(""); return o },
		"no metadata": func(o *unstructured.Unstructured) *unstructured.Unstructured {
			o.Object["metadata"] = "x"
			return o
		},
	} {
		k := newKit(t)
		k.place("A", 1, "r1")
		k.member.Record(true)
		u := k.leader(func(c backend.Conn) backend.Conn { return &spoilingConn{c, spoil} })
		if _, err := u.Update(t.Context(), k.want("B", 1, "r2")); !errors.Is(err, backend.ErrPermanent) {
			t.Errorf("%s: %v", name, err)
		}
		if log := k.member.Log(); len(log) != 0 {
			t.Errorf("%s: wrote %v", name, log)
		}
	}
}
