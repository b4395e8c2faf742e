package member

import (
	"bytes"
	"testing"

	"github.com/slipway-dev/slipway/snapshot"
)

// TestT6TheFrozenRevisionIsApplied covers threat T6: an update applies the content of the digest in
// the plan, even if the objects, the latest snapshot or the member have changed since.
func TestT6TheFrozenRevisionIsApplied(t *testing.T) {
	k := newKit(t)
	source := configMap("default", "a", "approved")
	frozen := k.revision("approved", source)
	source.Object["data"].(map[string]any)["v"] = "changed"
	k.revision("changed", source)
	u := k.leader(nil)
	if r := k.must(u, k.want("approved", 1, "r1")); r.Revision != frozen {
		t.Errorf("%+v", r)
	}
	if got := k.objects()["ConfigMap/default/a"]; got != "approved+ours" {
		t.Errorf("applied %q", got)
	}
	// A member that changes the objects that it receives makes no difference either.
	rev, err := k.load(t.Context(), kitPlacement, frozen)
	if err != nil {
		t.Fatal(err)
	}
	body, err := snapshot.Canonical(rev.items[0].obj.Object)
	if err != nil {
		t.Fatal(err)
	}
	k.exists(configMap("default", "a", "edited"))
	k.must(u, k.want("approved", 2, "r1"))
	k.must(u, k.want("changed", 3, "r2"))
	again, err := snapshot.Canonical(rev.items[0].obj.Object)
	if err != nil || !bytes.Equal(body, again) {
		t.Errorf("a shared object was changed: %s, then %s", body, again)
	}
}

// TestForeignMarksAreNotApplied checks that an object's marks from another cluster are ignored:
// they count neither as marks of this placement nor as marks of another placement.
func TestForeignMarksAreNotApplied(t *testing.T) {
	k := newKit(t)
	obj := configMap("default", "a", "1")
	obj.SetAnnotations(map[string]string{digestMark + "hub": "d", epochMark + "hub": "3", "keep": "me"})
	k.revision("H", obj)
	k.place("H", 1, "r1")
	got, err := k.member.Get(configMapID("default", "a"))
	if err != nil {
		t.Fatal(err)
	}
	a := got.GetAnnotations()
	if len(a) != 2 || a["keep"] != "me" || a[digestMark+kitPlacement] == "" {
		t.Errorf("annotations: %v", a)
	}
}
