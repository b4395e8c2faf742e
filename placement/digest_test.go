package placement_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/placement"
)

func TestOverridesDigest(t *testing.T) {
	a := onConfigMap("a", rule(patch("replace", "/data", `{"x": 1.0, "a": 12345678901234567890}`)))
	b := onNamespace("a", placement.Rule{Type: placement.Delete, ClusterSelector: &placement.ClusterSelector{}})
	b.Selectors = append(b.Selectors, placement.ObjectSelector{Version: "v1", Kind: "Namespace", Name: "b"})
	digest, data, err := placement.OverridesDigest([]placement.Override{a, b})
	if err != nil {
		t.Fatal(err)
	}
	a.Rules[0].Patches[0].Value = json.RawMessage(`{"a":12345678901234567890,"x":1.0}`)
	a.Rules[0].Type = placement.JSONPatch
	slices.Reverse(b.Selectors)
	b.Rules[0].ClusterSelector.Terms = []placement.ClusterTerm{}
	again, same, err := placement.OverridesDigest([]placement.Override{b, a})
	if err != nil {
		t.Fatal(err)
	}
	if digest != again || string(data) != string(same) {
		t.Errorf("the order or the form changed the digest:\n%s\n%s", data, same)
	}
	decoded, err := placement.DecodeOverrides(data)
	if err != nil {
		t.Fatal(err)
	}
	if back, _, err := placement.OverridesDigest(decoded); err != nil || back != digest {
		t.Errorf("decoded overrides have digest %s (%v), want %s", back, err, digest)
	}
	b.Rules[0].ClusterSelector = nil // none instead of all
	if other, _, _ := placement.OverridesDigest([]placement.Override{a, b}); other == digest {
		t.Error("a nil cluster selector has the digest of one that picks all")
	}
}

func TestOverridesDigestEdges(t *testing.T) {
	if d, b, err := placement.OverridesDigest(nil); d != "" || b != nil || err != nil {
		t.Errorf("no overrides: %q, %q, %v; want nothing", d, b, err)
	}
	if o, err := placement.DecodeOverrides(nil); o != nil || err != nil {
		t.Errorf("no bytes: %v, %v; want nothing", o, err)
	}
	if _, _, err := placement.OverridesDigest([]placement.Override{{Name: "UP"}}); err == nil {
		t.Error("an invalid override has a digest")
	}
	const good = `[{"name":"a","resourceSelectors":[{"group":"","version":"v1","kind":"Node","name":"n"}],"overrideRules":[{"overrideType":"Delete"}]}]`
	if _, err := placement.DecodeOverrides([]byte(good)); err != nil {
		t.Error(err)
	}
	newer := strings.Replace(good, `"name":"a"`, `"name":"a","rank":1`, 1)
	for _, data := range []string{"{", "{}", newer, `[{"name":"a"}]`, good + " []"} {
		if _, err := placement.DecodeOverrides([]byte(data)); err == nil {
			t.Errorf("DecodeOverrides(%s) gave no error", data)
		}
	}
}

func TestPatchValueNullSurvives(t *testing.T) {
	want := []placement.Override{onConfigMap("o", placement.Rule{Type: placement.JSONPatch, Patches: []placement.Patch{patch("add", "/data/x", `null`)}})}
	_, data, err := placement.OverridesDigest(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := placement.DecodeOverrides(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
