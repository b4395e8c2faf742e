package requests

import (
	"slices"
	"testing"
)

// The request of a run may have the name of one of another run only where the name of that is its beginning, up to a
// hyphen; so these are all that have to be asked.
func TestTheRunsThatARequestMayBeOf(t *testing.T) {
	for name, want := range map[string][]string{
		"web-before-prod": {"web", "web-before"}, "web-prod": {"web"}, "web": nil, "": nil, "-web": nil, "a--b": {"a", "a-"},
	} {
		if got := slices.Collect(RunsOfRequest(name)); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
