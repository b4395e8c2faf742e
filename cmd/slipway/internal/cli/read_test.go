package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/stages"
)

func TestReadFileOfDurations(t *testing.T) {
	for text, want := range map[string]string{
		"backoff: 10s":                         "",
		"backoff: 10":                          `backoff is 10: must be a duration with its unit, such as "10s"`,
		"stages: [{name: a, timeout: 1 hour}]": `stages[0].timeout is "1 hour": must be a duration`,
		"backoffs: 10s":                        `unknown field "backoffs"`,
	} {
		t.Run(text, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "strategy.yaml")
			if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			var s stages.Strategy
			err := cli.ReadFile(path, &s)
			switch {
			case want == "" && (err != nil || s.Backoff.Duration != 10*time.Second):
				t.Errorf("got %s, %v", s.Backoff.Duration, err)
			case want != "" && (err == nil || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), want)):
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}
