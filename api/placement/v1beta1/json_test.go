package v1beta1_test

import (
	"encoding/json"
	"testing"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
)

// A patch keeps the exact text of its value, and a missing value is not written.
func TestTheValueOfAPatchIsKept(t *testing.T) {
	for text, want := range map[string]string{
		`{"op":"add","path":"/a","value":{"b":[1, 2.50,null]}}`: `{"op":"add","path":"/a","value":{"b":[1,2.50,null]}}`,
		`{"op":"add","path":"/a","value":""}`:                   `{"op":"add","path":"/a","value":""}`,
		`{"op":"add","path":"/a","value":0}`:                    `{"op":"add","path":"/a","value":0}`,
		`{"op":"remove","path":"/a","value":null}`:              `{"op":"remove","path":"/a"}`,
		`{"op":"remove","path":"/a"}`:                           `{"op":"remove","path":"/a"}`,
	} {
		var patch v1beta1.JSONPatchOverride
		if err := json.Unmarshal([]byte(text), &patch); err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(patch.DeepCopy())
		if err != nil || string(got) != want {
			t.Errorf("%s becomes %s, %v, want %s", text, got, err, want)
		}
	}
}
