package snapshot_test

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/snapshot"
)

func TestCanonical(t *testing.T) {
	tests := []struct {
		name string
		give any
		want string
	}{
		{"sorted keys", map[string]any{"b": nil, "a": true, "": false, "a/b": "x", "B": int64(1)}, `{"":false,"B":1,"a":true,"a/b":"x","b":null}`},
		{"lists keep their order", []any{int64(2), int64(1), []any{}, map[string]any{}}, `[2,1,[],{}]`},
		{"nil containers", []any{map[string]any(nil), []any(nil)}, `[null,null]`},
		{"no HTML escapes", "<a href='x'>&</a>", `"<a href='x'>&</a>"`},
		{"escapes", "\"\\/\b\f\n\r\t\x00\x1f\x7f", `"\"\\/\b\f\n\r\t\u0000\u001f` + "\x7f\""},
		{"line separators and emoji as they are", "\u2028\u2029é😀", "\"\u2028\u2029é😀\""},
		{"integers beyond 2^53", int64(9007199254740993), `9007199254740993`},
		{"smallest integer", int64(math.MinInt64), `-9223372036854775808`},
		{"integral float", 3.0, `3`},
		{"minus zero", math.Copysign(0, -1), `0`},
		{"float that is a large integer", float64(1 << 60), `1152921504606846976`},
		{"float beyond int64", float64(1 << 63), `9.223372036854776e+18`},
		{"float far beyond", 1e300, `1e+300`},
		{"fraction", 0.1, `0.1`},
		{"fraction of a large number", 123456789.125, `123456789.125`},
		{"small", 1e-6, `0.000001`},
		{"very small", -1e-7, `-1e-07`},
		{"smallest", math.SmallestNonzeroFloat64, `5e-324`},
		{"number that is an integer", json.Number("9007199254740993"), `9007199254740993`},
		{"number that is no integer", json.Number("1.50"), `1.5`},
		{"number with exponent", json.Number("1E3"), `1000`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := snapshot.Canonical(map[string]any{"v": tt.give})
			if err != nil {
				t.Fatal(err)
			}
			if want := `{"v":` + tt.want + `}`; want != string(got) {
				t.Errorf("Canonical = %s, want %s", got, want)
			}
		})
	}
}

func nested(levels int) map[string]any {
	m := map[string]any{}
	for range levels - 1 {
		m = map[string]any{"m": m}
	}
	return m
}

func TestCanonicalErrors(t *testing.T) {
	big := strings.Repeat("x", snapshot.MaxObjectBytes)
	tests := []struct {
		name string
		give any
		want string
	}{
		{"NaN", math.NaN(), `"/spec/a~1b/1": NaN`},
		{"infinity", math.Inf(-1), `"/spec/a~1b/1": NaN and infinities`},
		{"int", 5, `"/spec/a~1b/1": a value of type int`},
		{"map of strings", map[string]string{}, `a value of type map[string]string`},
		{"invalid text", "a\xff", `"/spec/a~1b/1": the text is not valid UTF-8`},
		{"invalid key", map[string]any{"a\xff": nil}, `"/spec/a~1b/1": a key is not valid UTF-8`},
		{"integer too large", json.Number("9223372036854775808"), `the integer does not fit`},
		{"number too large", json.Number("1e999"), `the number does not fit`},
		{"hexadecimal", json.Number("0x10"), `not a JSON number`},
		{"no number", json.Number("Inf"), `not a JSON number`},
		{"empty number", json.Number(""), `not a JSON number`},
		{"too deep", nested(snapshot.MaxDepth), `nested deeper than 128 levels`},
		{"too large", big, `bytes of JSON, at most 1556480 are allowed`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			obj := object("v1", "Thing", "ns", "name")
			obj.Object["spec"] = map[string]any{"a/b": []any{nil, tt.give}}
			_, err := snapshot.Canonical(obj.Object)
			if err == nil {
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "Thing.v1 ns/name") {
				t.Errorf("error %v, want one with %q that names the object", err, tt.want)
			}
		})
	}
	if _, err := snapshot.Canonical(nil); err == nil {
		t.Error("Canonical(nil) gives no error")
	}
}

// The limits themselves are allowed.
func TestCanonicalAtTheLimits(t *testing.T) {
	if _, err := snapshot.Canonical(nested(snapshot.MaxDepth)); err != nil {
		t.Errorf("%d levels: %v", snapshot.MaxDepth, err)
	}
	if _, err := snapshot.Canonical(nested(snapshot.MaxDepth + 1)); err == nil {
		t.Errorf("%d levels of maps are taken", snapshot.MaxDepth+1)
	}
	var list any = []any{}
	for range snapshot.MaxDepth - 2 {
		list = []any{list}
	}
	if _, err := snapshot.Canonical(map[string]any{"l": list}); err != nil {
		t.Errorf("%d levels with lists: %v", snapshot.MaxDepth, err)
	}
	if _, err := snapshot.Canonical(map[string]any{"l": []any{list}}); err == nil {
		t.Errorf("%d levels with lists are taken", snapshot.MaxDepth+1)
	}
	full := map[string]any{"": strings.Repeat("x", snapshot.MaxObjectBytes-len(`{"":""}`))}
	body, err := snapshot.Canonical(full)
	if err != nil || len(body) != snapshot.MaxObjectBytes {
		t.Errorf("%d bytes: %v", len(body), err)
	}
}

func TestDecode(t *testing.T) {
	const head = `{"apiVersion":"v1","kind":"Thing","metadata":{"name":"n"}`
	obj, err := snapshot.Decode([]byte(head + `,"i":9007199254740993,"f":1.5,"l":[1,null],"s":"é"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := object("v1", "Thing", "", "n")
	want.Object["i"], want.Object["f"], want.Object["l"], want.Object["s"] = int64(9007199254740993), 1.5, []any{int64(1), nil}, "é"
	if diff := cmp.Diff(want.Object, obj.Object); diff != "" {
		t.Errorf("Decode (-want +got):\n%s", diff)
	}
	tests := []struct{ name, body, want string }{
		{"empty", ``, "not valid JSON, at byte 0"},
		{"no object", `[]`, "not an object"},
		{"cut short", head, "not valid JSON"},
		{"more", head + `}{}`, "more after the object"},
		{"rubbish behind", head + `}]`, "more after the object"},
		{"duplicate key", head + `,"a":{"b":1,"b":1}}`, `"/a/b": the key is there twice`},
		{"duplicate key in other letters", head + `,"a":{"b":1,"\u0062":1}}`, `"/a/b": the key is there twice`},
		{"large integer", head + `,"a":[9223372036854775808]}`, `"/a/0": the integer does not fit`},
		{"large number", head + `,"a":1e999}`, `"/a": the number does not fit`},
		{"invalid text", head + ",\"a\":\"\xff\"}", "not valid UTF-8"},
		{"trailing comma", head + `,}`, "not valid JSON"},
		{"no name", `{"apiVersion":"v1","kind":"Thing"}`, "metadata.name is missing"},
		{"no kind", `{"apiVersion":"v1"}`, "kind is missing"},
		{"no version", `{"kind":"Thing"}`, "apiVersion must be"},
		{"strange version", `{"apiVersion":"a/b/c","kind":"Thing","metadata":{"name":"n"}}`, "apiVersion must be"},
		{"deep", strings.Repeat(`{"a":`, 129), "nested deeper than 128"},
		{"large", strings.Repeat(" ", snapshot.MaxObjectBytes+1), "at most 1556480"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := snapshot.Decode([]byte(tt.body)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// FuzzCanonical proves that the canonical form is a fixed point and has the same meaning as the
// input, and that strange input is refused without a panic.
func FuzzCanonical(f *testing.F) {
	const head = `{"apiVersion":"v1","kind":"Thing","metadata":{"name":"n"},"v":`
	for _, v := range []string{
		`0}`, `-0}`, `-0.0}`, `1e18}`, `9.3e18}`, `1e21}`, `5e-324}`, `9007199254740993}`, `0.000001}`, `123456.789e3}`,
		`"\ud83d\ude00\u2028<&>\u0000\ud800"}`, `{"b":[],"a":{}}}`, `[[],{},null,true]}`, `1e999}`,
	} {
		f.Add([]byte(head + v))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		obj, err := snapshot.Decode(body)
		if err != nil {
			return
		}
		if !json.Valid(body) {
			t.Fatalf("Decode took what is not JSON: %q", body)
		}
		first, err := snapshot.Canonical(obj.Object)
		if err != nil {
			return // grew over the limit
		}
		again, err := snapshot.Decode(first)
		if err != nil {
			t.Fatalf("Decode of %q: %v", first, err)
		}
		second, err := snapshot.Canonical(again.Object)
		if err != nil || string(first) != string(second) {
			t.Fatalf("no fixed point: %q then %q, %v", first, second, err)
		}
		if want, got := meaning(t, body), meaning(t, first); !reflect.DeepEqual(want, got) {
			t.Fatalf("%q means something else than %q", first, body)
		}
	})
}

func meaning(t *testing.T, body []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	return v
}
