package requests

import (
	"slices"
	"testing"
)

// A request may belong to any run whose name is a prefix of the request's name that ends before a
// hyphen. No other run needs to be checked.
func TestRunsOfRequest(t *testing.T) {
	for name, want := range map[string][]string{
		"web-before-prod": {"web", "web-before"}, "web-prod": {"web"}, "web": nil, "": nil, "-web": nil, "a--b": {"a", "a-"},
	} {
		if got := slices.Collect(RunsOfRequest(name)); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
