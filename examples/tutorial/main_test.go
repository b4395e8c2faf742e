package main

import (
	"strings"
	"testing"
)

// Both greetings reach all clusters after the canary is approved, and the rollback restores the
// first one.
func TestTheTutorialEndsWithTheFirstGreeting(t *testing.T) {
	var out strings.Builder
	if err := play(t.Context(), &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	text := out.String()
	for _, want := range []string{
		"RunCompleted shop-1 ", "eu-1 has hello\neu-2 has hello\nus-1 has hello\n",
		"ClusterCompleted shop-2 canary eu-1 ", "ApprovalAccepted shop-2 canary  ann eu-1 looks good\n", "RunCompleted shop-2 ",
		"eu-1 has good morning\neu-2 has good morning\nus-1 has good morning\n",
		"RunCompleted shop-2-rollback ", "eu-1 has hello\neu-2 has hello\nus-1 has hello\n",
	} {
		_, after, found := strings.Cut(text, want)
		if !found {
			t.Fatalf("no %q after what is before it in\n%s", want, out.String())
		}
		text = after
	}
}
