package cli

import "testing"

// On a terminal a long error is broken between words, and its other lines are indented.
func TestAnErrorIsBrokenBetweenWords(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"error: the run is gone", 0, "error: the run is gone"},
		{"error: the run is gone", 12, "error: the\n  run is\n  gone"},
		{"error: the run is gone", 22, "error: the run is gone"},
		{"a\nbb cc", 4, "a\nbb\n  cc"},
		{"error: /a/long/path is gone", 10, "error:\n  /a/long/path\n  is gone"},
		{"  two  spaces", 40, "  two  spaces"},
	} {
		if got := wrapped(c.text, c.width); got != c.want {
			t.Errorf("%q in %d columns: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

func TestTheDistanceOfWords(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"aprove", "approve", 1}, {"wiat", "wait", 2}, {"", "abc", 3}, {"placement", "placment", 1}, {"store", "server", 4}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%s and %s: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
