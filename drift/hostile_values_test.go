package drift_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-dev/slipway/drift"
)

// Every value of a live object is replaced by every sort of nonsense, one at a
// time, in the hub's and in the member's.
func TestNonsenseAnywhereIsADifferenceOrAnError(t *testing.T) {
	names := []string{"deployment", "secret", "service"}
	if soaked() {
		names = append(names, "pod", "statefulset", "webhook", "crd", "serviceaccount", "job")
	}
	for _, name := range names {
		docs, err := documents(objectFile(name))
		if err != nil {
			t.Fatal(err)
		}
		hub, err := objectOf(docs[0].Content[0])
		if err != nil {
			t.Fatal(err)
		}
		member, err := objectOf(docs[1].Content[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, pointer := range pointers(member, "", 0) {
			for i, v := range nonsense() {
				odd := kruntime.DeepCopyJSON(member)
				if put(odd, pointer, v, true) != nil {
					continue
				}
				survives(t, fmt.Sprintf("%s %s member %d", name, pointer, i), hub, odd)
				survives(t, fmt.Sprintf("%s %s hub %d", name, pointer, i), odd, member)
			}
		}
	}
}

// nonsense are values that hardly any field expects.
func nonsense() []any {
	return []any{
		nil, "", "x", "\xff\xfe", "a\x00b", int64(math.MinInt64), math.MaxFloat64, json.Number("1e999999999"), json.Number("99999999999999999999"), true,
		[]any{},
		[]any{nil},
		[]any{"a", int64(1), map[string]any{}},
		map[string]any{},
		map[string]any{"": nil, "\xff": "\xff"},
		[]any{map[string]any{"name": []any{}}, map[string]any{"name": map[string]any{}}},
	}
}

func pointers(v any, at string, level int) (all []string) {
	if level > 9 {
		return nil
	}
	switch v := v.(type) {
	case map[string]any:
		for name, e := range v {
			p := at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
			all = append(append(all, p), pointers(e, p, level+1)...)
		}
	case []any:
		for i, e := range v {
			p := at + "/" + strconv.Itoa(i)
			all = append(append(all, p), pointers(e, p, level+1)...)
		}
	}
	return all
}

// survives compares without a panic, and with a report that is JSON.
func survives(t *testing.T, what string, hub, member map[string]any) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("%s: panic: %v", what, r)
		}
	}()
	m, err := drift.Compile(&unstructured.Unstructured{Object: hub}, drift.Options{Comparison: drift.Full, Manager: "slipway"})
	if err != nil {
		checkText(t, what, err.Error())
		return
	}
	live := &unstructured.Unstructured{Object: member}
	for _, b := range []*drift.Baseline{nil, m.Baseline(live)} {
		r, err := m.Compare(live, b)
		if err != nil {
			checkText(t, what, err.Error())
			continue
		}
		text, err := json.Marshal(r)
		if err != nil || !json.Valid(text) {
			t.Errorf("%s: %v in %q", what, err, text)
		}
		checkText(t, what, string(text))
	}
}

func checkText(t *testing.T, what, text string) {
	t.Helper()
	if !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\x1b") || len(text) > 200_000 {
		t.Errorf("%s: %.300q", what, text)
	}
}

// A decoder accepts these numbers, and a comparison must not expand them to all their digits.
func TestHugeNumbersAreNotExpanded(t *testing.T) {
	known := unbounded(drift.Full, schemas(t, "gadget-crd"))
	known.MaxValueBytes = 0
	long := strings.Repeat("9", 100_000)
	values := []any{
		json.Number("1e999999999"), json.Number("-1e999999999"), json.Number("1e-999999999"), json.Number("1E+99999999999999999999"),
		json.Number(long), json.Number("0." + long), json.Number("18446744073709551616"), json.Number("x"), json.Number(""), json.Number("-"),
		math.Inf(1), math.NaN(), math.MaxFloat64, math.SmallestNonzeroFloat64, math.Copysign(0, -1),
		"1e999999999", "1e-999999999", "999999999999999999999999999Ei", long, long + "Mi", "0." + long, "-" + long + "h", "1h" + long + "m", "1e", "Ki", "+", ".",
	}
	for i, hub := range values {
		for j, member := range values {
			if i == j || (i+j)%5 > 0 && !soaked() || len(fmt.Sprint(hub))+len(fmt.Sprint(member)) > 100_100 && i+1 != j {
				continue
			}
			for _, field := range []string{"amount", "count", "ratio", "span", "at", "port", "blob", "free"} {
				used, _ := spent(func() {
					r, err := drift.Compare(gadget(map[string]any{field: hub}), gadget(map[string]any{field: member}), known)
					if err != nil {
						checkText(t, field, err.Error())
					} else {
						checkText(t, field, compact(r))
					}
				})
				if used > 8<<20 {
					t.Errorf("%s: %.40v against %.40v allocates %d bytes", field, hub, member, used)
				}
			}
		}
	}
}

// A server cannot return values that are not JSON; a host that passes them gets an error or a
// difference.
func TestValuesThatAreNotJSONDoNoHarm(t *testing.T) {
	type own struct{ A int }
	for _, v := range []any{1, uint64(1), float32(1), own{1}, &own{1}, []string{"a"}, map[string]string{"a": "b"}, []byte("a"), func() {}, make(chan int), map[any]any{1: 2}, error(nil)} {
		survives(t, fmt.Sprintf("%T on the member", v), box(map[string]any{"a": "x"}).Object, box(map[string]any{"a": v, "b": v}).Object)
		survives(t, fmt.Sprintf("%T in the hub", v), box(map[string]any{"a": v}).Object, box(map[string]any{"a": "x"}).Object)
	}
}

// managedFields and annotations come from the member too.
func TestHostileBookkeepingDoesNoHarm(t *testing.T) {
	deep := nested(10_000, map[string]any{}, false)
	entries := func(n int, fields any) []any {
		return items(n, func(i int) any {
			return map[string]any{"manager": "slipway", "operation": "Apply", "apiVersion": "v1", "time": "now\x1b", "fieldsType": "FieldsV1", "fieldsV1": fields}
		})
	}
	keys := map[string]any{}
	for i := range hostileItems {
		keys["k:{\"name\":\"n"+strconv.Itoa(i)+"\"}"] = map[string]any{"f:x": map[string]any{}}
	}
	odd := map[string]any{"f:data": map[string]any{"f:": map[string]any{}, "k:{": map[string]any{}, "v:": nil, "i:x": "y", "x": []any{}, "\xff": map[string]any{}}}
	for what, managed := range map[string]any{
		"many": entries(20_000, map[string]any{"f:data": map[string]any{"f:old": map[string]any{}}}), "keys": entries(3, map[string]any{"f:data": keys}),
		"odd": entries(3, odd), "text": "x", "map": map[string]any{"a": "b"}, "no maps": []any{"a", nil, int64(1)}, "deep": entries(1, deep),
	} {
		meta := map[string]any{"name": "a", "managedFields": managed}
		member := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": map[string]any{"old": "x", "k": "v"}}
		hub := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}, "data": map[string]any{"k": "w"}}
		survives(t, what, hub, member)
	}
	for what, text := range map[string]string{
		"deep": strings.Repeat(`{"a":`, 10_000), "deep list": `{"data":` + strings.Repeat("[", 100_000), "long": `{"data":{"old":"` + strings.Repeat("x", 2<<20) + `"}}`,
		"no UTF-8": "{\"data\":{\"\xff\":\"\xff\"}}", "NUL": "{\"data\":{\"\x00\":1}}", "no object": "[]", "null": "null", "numbers": `{"data":1e999999}`,
	} {
		meta := map[string]any{"name": "a", "annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": text}}
		member := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": map[string]any{"old": "x", "k": "v"}}
		hub := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}, "data": map[string]any{"k": "w"}}
		survives(t, what, hub, member)
	}
}
