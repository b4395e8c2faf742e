package compare

import (
	"strconv"
	"testing"

	"github.com/slipway-dev/slipway/drift/internal/value"
)

func TestAMemberWithTooManyDifferencesIsRefusedOnce(t *testing.T) {
	tree, err := Compile(decoded(t, "apiVersion: example.org/v1\nkind: Thing\nmetadata: {name: a}"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	member := decoded(t, "apiVersion: example.org/v1\nkind: Thing\nmetadata: {name: a}").Object
	for _, c := range []struct {
		each  int
		fails bool
	}{{1, false}, {value.MaxNodes / trustedValues, true}} {
		for i := range 2 * trustedValues {
			member["extra-"+strconv.Itoa(i)] = make([]any, c.each)
		}
		found, _, err := tree.Compare(member, true, nil)
		if (err != nil) != c.fails || !c.fails && len(found) != 2*trustedValues {
			t.Errorf("%d each: got %d differences and %v", c.each, len(found), err)
		}
	}
}
