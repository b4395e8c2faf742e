//go:build unix

package pgenv_test

import (
	"os"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/pgenv"
)

func TestAServerIsKilledStartedAgainCopiedAndPromoted(t *testing.T) {
	s, err := pgenv.Start(pgenv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, step := range []struct {
		name string
		do   func() error
	}{{"kill", s.Kill}, {"start", s.Start}, {"stop", s.Stop}, {"start again", s.Start}} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
	}
	standby, err := s.Standby("copy")
	if err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(); err != nil {
		t.Error(err)
	}
	if err := standby.Close(); err != nil {
		t.Error(err)
	}
}

func TestAServerThatIsMissingIsNamed(t *testing.T) {
	t.Setenv("SLIPWAY_POSTGRES", t.TempDir())
	if _, err := pgenv.Start(pgenv.Options{}); err == nil || !strings.Contains(err.Error(), os.Getenv("SLIPWAY_POSTGRES")) {
		t.Errorf("the error is %v", err)
	}
	t.Setenv("SLIPWAY_POSTGRES", "")
}
