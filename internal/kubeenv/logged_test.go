package kubeenv

import (
	"errors"
	"strings"
	"testing"
)

// Logged reports warnings and errors, once, except those that a test allows and those that come
// from a busy machine.
func TestLoggedReportsUnexpectedWarnings(t *testing.T) {
	var l Logged
	l.May("placement=web", "left behind")
	log := l.Logger()
	log.Info("begun")
	log.Warn("left behind", "placement", "web")
	log.Warn("left behind", "placement", "other")
	log.Error("not saved", "error", errors.New("the store is down"))
	log.Warn("not saved", "error", errors.New("context deadline exceeded"))
	said := l.Take()
	if len(said) != 2 || !strings.Contains(said[0], "placement=other") || !strings.Contains(said[1], "the store is down") {
		t.Errorf("it reports %q", said)
	}
	if again := l.Take(); len(again) > 0 {
		t.Errorf("it reports again %q", again)
	}
	l.May()
	log.Warn("anything")
	if said := l.Take(); len(said) > 0 {
		t.Errorf("May without texts allows all, but it reports %q", said)
	}
}
