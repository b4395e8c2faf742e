package snapshot

import (
	"reflect"
	"strings"
	"testing"
)

// FuzzDecodePaths proves that the fast decoder accepts exactly the input of the slow one, with
// the same result.
func FuzzDecodePaths(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"a":":\"\\\\","b":[1,2.5,{"c":null}]}`, `{"a":1,"a":2}`, `{"a":9223372036854775808}`, `null`, `[]`, `{} {}`, `{"\u0061":1,"a":":"}`,
		strings.Repeat(`{"a":`, 127) + `{}` + strings.Repeat(`}`, 127), strings.Repeat(`{"a":`, 128) + `{}` + strings.Repeat(`}`, 128),
		`{"a":` + strings.Repeat(`[`, 127) + strings.Repeat(`]`, 127) + `}`, `{"a":` + strings.Repeat(`[`, 128) + strings.Repeat(`]`, 128) + `}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		fast, ok := decodeFast(body)
		slow, err := decodeSlow(body)
		if ok != (err == nil) {
			t.Fatalf("%q: fast %v, slow %v", body, ok, err)
		}
		// Not cmp.Diff: its time doubles with every level of nested lists.
		if ok && !reflect.DeepEqual(slow, fast) {
			t.Fatalf("%q: slow %v, fast %v", body, slow, fast)
		}
	})
}
