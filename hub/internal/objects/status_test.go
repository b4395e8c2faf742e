package objects

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAPatchReplaces lists pairs of values with the merge patch that changes the first into the
// second.
func TestAPatchReplaces(t *testing.T) {
	object := func(pairs ...any) map[string]any {
		out := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i].(string)] = pairs[i+1]
		}
		return out
	}
	for name, c := range map[string]struct{ before, next, want any }{
		"what is new":       {nil, object("a", "1"), object("a", "1")},
		"what differs":      {object("a", "1", "b", "2"), object("a", "1", "b", "3"), object("b", "3")},
		"what is gone":      {object("a", "1", "b", "2"), object("a", "1"), object("b", nil)},
		"deep in it":        {object("a", object("x", "1", "y", "2")), object("a", object("x", "3")), object("a", object("x", "3", "y", nil))},
		"a list as a whole": {[]any{"1", "2"}, []any{"2"}, []any{"2"}},
	} {
		if diff := cmp.Diff(c.want, replacing(c.before, c.next)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
