package member

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// forge replaces the ledger on the member by its edited version.
func (k *kit) forge(edit func(l *ledger)) {
	k.t.Helper()
	l := k.ledger()
	edit(l)
	text, err := l.encode(k.key)
	if err != nil {
		k.t.Fatal(err)
	}
	k.exists(ledgerObjectOf(kitPlacement, text, ""))
}

// made returns an entry which says that the placement created an object on the member.
func (k *kit) made(id snapshot.ID) ledgerObject {
	k.t.Helper()
	live, err := k.member.Get(id)
	if err != nil {
		k.t.Fatal(err)
	}
	return ledgerObject{ID: id, UID: uidOf(live)}
}

func object(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}}}
	if namespace != "" {
		obj.SetNamespace(namespace)
	}
	return obj
}

// TestAForgedLedgerHasNothingDeleted checks that nothing is deleted that the placement did not
// create, whatever the ledger says. A ledger is a ConfigMap on the member, which other clients may
// be able to write. The test covers the next update, the removal of the placement, and the takeover
// of an intent.
func TestAForgedLedgerHasNothingDeleted(t *testing.T) {
	marked := object("v1", "ConfigMap", "team", "shared")
	marked.SetAnnotations(map[string]string{digestMark + "other": "d"})
	for _, c := range []struct {
		name   string
		victim *unstructured.Unstructured
		// refused reports that the ledger must be refused completely.
		refused bool
	}{
		{"an object of kube-system", object("v1", "ConfigMap", "kube-system", "extension-apiserver-authentication"), true},
		{"a namespace of the cluster", namespaceObject("kube-public"), true},
		{"a namespace of the cluster, said to be in one", object("v1", "Namespace", "", "kube-node-lease"), true},
		{"an object of another fleet", object("v1", "Secret", "fleet-system", "token"), true},
		{"a kind that is never placed", object("v1", "Pod", "team", "web-0"), true},
		{"a lease", object("coordination.k8s.io/v1", "Lease", "team", "leader"), true},
		{"another team's object", object("v1", "Secret", "team", "theirs"), false},
		{"another team's namespace", namespaceObject("team-2"), false},
		{"an object in no namespace", object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "cluster-admin"), false},
		{"a definition", object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "widgets.example.com"), false},
		{"another placement's object", marked, false},
		{"an object that was taken over", configMap("default", "x", "theirs"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := snapshot.IDOf(c.victim)
			entry := func(k *kit) ledgerObject { return k.made(id) }
			if strings.Contains(c.name, "said to be in one") {
				entry = func(k *kit) ledgerObject { o := k.made(id); o.Namespace = "app"; return o }
			}
			for how, edit := range map[string]func(l *ledger, o ledgerObject){
				"as created": func(l *ledger, o ledgerObject) { l.Objects = append(withoutObject(l.Objects, o), o) },
				"in an open intent": func(l *ledger, o ledgerObject) {
					l.Phase, l.Revision, l.Target, l.RunUID = ledgerApplying, "", snapshot.Digest(nil), "another"
					l.Objects = append(withoutObject(l.Objects, o), o)
				},
				"in doubt": func(l *ledger, o ledgerObject) {
					l.Objects, l.Suspects = withoutObject(l.Objects, o), append(l.Suspects, o)
				},
			} {
				for _, to := range []string{"B", ""} {
					k := newKit(t)
					for _, ns := range []string{"team", "kube-public", "kube-node-lease", "kube-system", "fleet-system"} {
						k.exists(namespaceObject(ns))
					}
					k.exists(c.victim)
					k.place("C", 1, "r1")
					k.forge(func(l *ledger) { edit(l, entry(k)) })
					before, err := k.member.Get(id)
					if err != nil {
						t.Fatal(err)
					}
					r, err := k.leader(nil).Update(t.Context(), k.want(to, 2, "r2"))
					switch {
					case c.refused && (!errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), "never placed")):
						t.Errorf("%s, to %q: %v, the ledger must be refused", how, to, err)
					case !c.refused && err != nil:
						t.Errorf("%s, to %q: %v", how, to, err)
					case !c.refused && how != "in doubt" && len(otherPlacements(before, kitPlacement)) == 0 && !strings.Contains(r.Released, id.String()):
						t.Errorf("%s, to %q: what is given up must be told, got %q", how, to, r.Released)
					}
					after, err := k.member.Get(id)
					if err != nil || after.GetUID() != before.GetUID() || isTerminating(after) {
						t.Errorf("%s, to %q: it was deleted: %v", how, to, err)
					}
				}
			}
		})
	}
}

// withoutObject returns the objects except one.
func withoutObject(objects []ledgerObject, o ledgerObject) (out []ledgerObject) {
	for _, have := range objects {
		if objectKey(have.ID) != objectKey(o.ID) {
			out = append(out, have)
		}
	}
	return out
}

// TestForeignLedgerEntriesAreLeftUntouched checks that an object without marks and fields of the
// placement is not even written when it is released.
func TestForeignLedgerEntriesAreLeftUntouched(t *testing.T) {
	k := newKit(t)
	k.place("A", 1, "r1")
	id := configMapID("default", "bystander")
	k.forge(func(l *ledger) { l.Objects = append(l.Objects, k.made(id)) })
	before, err := k.member.Get(id)
	if err != nil {
		t.Fatal(err)
	}
	k.must(k.leader(hook(func(op string, on snapshot.ID) {
		if on == id && op != "get" {
			t.Errorf("the member was asked to %s it", op)
		}
	})), k.want("B", 1, "r2"))
	if after, err := k.member.Get(id); err != nil || after.GetResourceVersion() != before.GetResourceVersion() {
		t.Errorf("it was written: %v, %v", after, err)
	}
}

// TestObjectWithoutItsDigestIsReleased checks that an object which the placement created is
// released after its digest was removed, because it can no longer be distinguished from objects of
// others.
func TestObjectWithoutItsDigestIsReleased(t *testing.T) {
	strip := func(k *kit) {
		b, err := k.member.Get(configMapID("default", "made"))
		if err != nil {
			t.Fatal(err)
		}
		b.SetAnnotations(nil)
		k.exists(b)
	}
	setUp := func() *kit {
		k := newKit(t)
		k.revision("M", configMap("default", "made", "1"))
		k.place("M", 1, "r1")
		strip(k)
		return k
	}
	t.Run("and released", func(t *testing.T) {
		k := setUp()
		r := k.place("A", 1, "r2")
		if !strings.Contains(r.Released, "default/made") || !strings.Contains(r.Released, digestMark+kitPlacement) {
			t.Errorf("it must be told: %q", r.Released)
		}
		obj, err := k.member.Get(configMapID("default", "made"))
		if err != nil {
			t.Fatal("it was deleted", err)
		}
		if bears(obj, kitPlacement) || obj.GetLabels()[appliedLabel] != "" {
			t.Errorf("it is still marked: %v", obj.Object["metadata"])
		}
	})
	// The placement may apply the object, and may no longer delete it.
	t.Run("and kept where it is wanted", func(t *testing.T) {
		k := setUp()
		if r := k.place("M", 1, "r2"); !strings.Contains(r.Released, "default/made") {
			t.Errorf("it must be told: %q", r.Released)
		}
		if r := k.place("M", 1, "r3"); r.Released != "" {
			t.Errorf("it is told once, not again: %q", r.Released)
		}
		k.place("A", 1, "r4")
		if got, ok := k.objects()["ConfigMap/default/made"]; !ok || got != "1" {
			t.Errorf("it is %q, %v", got, ok)
		}
	})
	// The digest is removed during an update.
	t.Run("in the middle of an update", func(t *testing.T) {
		k := newKit(t)
		k.revision("M", configMap("default", "made", "1"))
		k.place("M", 1, "r1")
		done := false
		r := k.must(k.leader(hook(func(op string, id snapshot.ID) {
			if op == "delete" && id.Name == "made" && !done {
				done = true
				strip(k)
			}
		})), k.want("A", 1, "r2"))
		if _, err := k.member.Get(configMapID("default", "made")); err != nil || !strings.Contains(r.Released, "default/made") {
			t.Errorf("%v, told %q", err, r.Released)
		}
	})
}

// TestObjectsInALaterReservedNamespaceAreReleased checks that a namespace which the host
// reserves later delays nothing: the objects of the placement in it are released, and never
// deleted.
func TestObjectsInALaterReservedNamespaceAreReleased(t *testing.T) {
	k := newKit(t)
	k.place("A", 1, "r1")
	u := k.leader(nil)
	u.rules = snapshot.Rules{Reserved: []string{"app"}}
	r := k.must(u, k.want("D", 1, "r2"))
	if !strings.Contains(r.Released, "app") {
		t.Errorf("it must be told: %q", r.Released)
	}
	got := k.objects()
	for _, name := range []string{"Namespace/app", "ConfigMap/app/a", "ConfigMap/app/b"} {
		if v, ok := got[name]; !ok || strings.Contains(v, "ours") {
			t.Errorf("%s is %q, %v", name, v, ok)
		}
	}
	if r := k.must(u, k.want("", 1, "r3")); !r.Healthy || strings.Contains(r.Released, "app") {
		t.Errorf("%+v", r)
	}
}

// TestObjectsOfAnInterruptedUpdateAreRemoved checks that the objects which an interrupted update
// created are removed, whatever it was doing when it ended.
func TestObjectsOfAnInterruptedUpdateAreRemoved(t *testing.T) {
	for stop := 1; ; stop++ {
		k := newKit(t)
		calls := 0
		_, err := k.leader(func(c backend.Conn) backend.Conn { return &briefConn{c, &calls, stop} }).Update(t.Context(), k.want("A", 1, "r1"))
		r := k.place("", 2, "r2")
		if !r.Healthy || r.Released != "" {
			t.Errorf("ended after call %d: %+v", stop, r)
		}
		wantObjects(t, k, k.expected("", false))
		if err == nil {
			return
		}
	}
}
