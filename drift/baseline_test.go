package drift

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func compiledX(t testing.TB, hub string, o Options) *Manifest {
	t.Helper()
	o.Schemas = keyedSchema()
	m, err := Compile(objectFrom(t, hub), o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func comparedWith(t testing.TB, m *Manifest, member string, b *Baseline) Report {
	t.Helper()
	r, err := m.Compare(objectFrom(t, member), b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const (
	baselineHub  = `{"metadata":{"name":"x"},"spec":{"items":[{"name":"a","value":"1000m"},{"name":"b","value":1}],"n":1,"lost":1}}`
	baselineLive = `{"metadata":{"name":"x"},"spec":{"items":[{"name":"a","value":"1","image":"i"},{"name":"b","value":1},{"name":"side","value":1}],"n":1,"mode":"auto"}}`
)

func TestBaselineFieldsAreNoDrift(t *testing.T) {
	m := compiledX(t, baselineHub, Options{Comparison: Full})
	b := m.Baseline(objectFrom(t, baselineLive))
	if b.Len() != 4 {
		t.Errorf("it explains %d differences, want 4", b.Len())
	}
	// The member lacked the field at the baseline already, but the field still differs from the hub.
	wantLines(t, comparedWith(t, m, baselineLive, b), `Missing /spec/lost - 1`)
	wantLines(t, comparedWith(t, m, `{"metadata":{"name":"x"},"spec":{"items":[{"name":"b","value":2},{"name":"side","value":2},{"name":"a","value":"1","image":"j"}],"n":1,"mode":"auto"}}`, b),
		`Order /spec/items - [{"name":"a","value":"1000m"},{"name":"b","value":1}] + [{"name":"b","value":2},{"name":"side","value":2},{"image":"j","name":"a","value":"1"}]`,
		`Changed /spec/items/0/value hub /spec/items/1/value - 1 + 2`,
		`Unmanaged /spec/items/1 + {"name":"side","value":2}`,
		`Unmanaged /spec/items/2/image + "j"`,
		`Missing /spec/lost - 1`,
	)
}

func TestBaselineOfAnOlderHubObjectExplainsNothing(t *testing.T) {
	b := compiledX(t, baselineHub, Options{}).Baseline(objectFrom(t, baselineLive))
	m := compiledX(t, `{"metadata":{"name":"x"},"spec":{"items":[{"name":"a","value":"2000m"}],"mode":"manual"}}`, Options{Comparison: Full})
	wantLines(t, comparedWith(t, m, baselineLive, b),
		`Changed /spec/items/0/value - "2000m" + "1"`,
		`Unmanaged /spec/items/1 + {"name":"b","value":1}`,
		`Changed /spec/mode - "manual" + "auto"`,
		`Unmanaged /spec/n + 1`,
	)
}

func TestWithoutABaselineNothingIsExplained(t *testing.T) {
	m := compiledX(t, baselineHub, Options{Comparison: Full})
	if b := m.Baseline(nil); b != nil {
		t.Error("there is a baseline of nothing")
	}
	if b := m.Baseline(objectFrom(t, baselineHub)); b != nil || b.Len() != 0 {
		t.Error("there is a baseline without a difference")
	}
	if got := comparedWith(t, m, baselineLive, nil).Total; got != comparedWith(t, m, baselineLive, &Baseline{}).Total || got != 5 {
		t.Errorf("got %d differences", got)
	}
}

func TestABaselineHoldsSecretsUnderAKeyOnly(t *testing.T) {
	hub := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"a":"AAAA"}}`
	live := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","labels":{"l":"x"}},"data":{"a":"AAAA","ca":"` + b64() + `"}}`
	plain := compiledX(t, hub, Options{Comparison: Full})
	b := plain.Baseline(objectFrom(t, live))
	wantLines(t, comparedWith(t, plain, live, b), `Unmanaged /data/ca + "(redacted)"`)
	keyed := compiledX(t, hub, Options{Comparison: Full, SecretKey: []byte("k")})
	b = keyed.Baseline(objectFrom(t, live))
	wantLines(t, comparedWith(t, keyed, live, b))
	other := compiledX(t, hub, Options{Comparison: Full, SecretKey: []byte("l")})
	if got := comparedWith(t, other, live, b); got.Total != 2 {
		t.Errorf("under another key, got %v", lines(got))
	}
}

func TestABaselineIsLimited(t *testing.T) {
	m := compiledX(t, `{"metadata":{"name":"x"},"spec":{"z":1}}`, Options{Comparison: Full})
	live := fromJSON(t, `{"metadata":{"name":"x"}}`)
	data := map[string]any{}
	for i := range MaxBaselineEntries + 10 {
		data[fmt.Sprint("f", i)] = int64(i)
	}
	live["spec"] = data
	b := m.Baseline(&unstructured.Unstructured{Object: live})
	text, _ := b.MarshalBinary()
	if b.Len() != MaxBaselineEntries || len(text) != baselineHeader+16*MaxBaselineEntries+baselineCheck {
		t.Errorf("it has %d entries in %d bytes", b.Len(), len(text))
	}
}

func TestABaselineSurvivesBeingStored(t *testing.T) {
	m := compiledX(t, baselineHub, Options{Comparison: Full})
	b := m.Baseline(objectFrom(t, baselineLive))
	text, err := b.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	again, _ := m.Baseline(objectFrom(t, baselineLive)).MarshalBinary()
	if !bytes.Equal(text, again) {
		t.Error("the encoding depends on more than the objects")
	}
	var read Baseline
	if err := read.UnmarshalBinary(text); err != nil {
		t.Fatal(err)
	}
	wantLines(t, comparedWith(t, m, baselineLive, &read), `Missing /spec/lost - 1`)
	for i := range text {
		damaged := slices.Clone(text)
		damaged[i] ^= 1
		if err := read.UnmarshalBinary(damaged); err == nil {
			t.Errorf("damage in byte %d is not seen", i)
		}
		if err := read.UnmarshalBinary(text[:i]); err == nil {
			t.Errorf("%d bytes are taken for a baseline", i)
		}
	}
	if read.Len() != b.Len() {
		t.Error("what is damaged was read")
	}
}

func FuzzBaseline(f *testing.F) {
	b := compiledX(f, baselineHub, Options{}).Baseline(objectFrom(f, baselineLive))
	text, _ := b.MarshalBinary()
	f.Add(text)
	f.Add([]byte{1, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		var b Baseline
		if b.UnmarshalBinary(data) != nil {
			return
		}
		if text, err := b.MarshalBinary(); err != nil || !bytes.Equal(text, data) {
			t.Errorf("%x became %x, %v", data, text, err)
		}
	})
}

// An apply does not explain fields that the member had before, except for an item in an atomic
// list that the apply removed and a webhook restored.
func TestBaselineAfterExplainsOnlyChangesOfTheApply(t *testing.T) {
	m := compiledX(t, `{"metadata":{"name":"x"},"spec":{"list":["a"]}}`, Options{Comparison: Full})
	before := objectFrom(t, `{"metadata":{"name":"x"},"spec":{"list":["a","injected"],"theirs":1}}`)
	live := `{"metadata":{"name":"x"},"spec":{"list":["a","injected"],"theirs":1,"filled":2}}`
	b := m.BaselineAfter(before, objectFrom(t, live), nil)
	wantLines(t, comparedWith(t, m, live, b), `Unmanaged /spec/theirs + 1`)
}
