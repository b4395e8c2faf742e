package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
)

// TestDriftReadsQuantitiesAsTheAPIServerStoresThem compares files with hand-written quantities
// with the objects of kube-apiserver, which rounds up to milli:
// https://github.com/argoproj/argo-cd/issues/21135,
// https://github.com/argoproj/argo-cd/issues/16400.
func TestDriftReadsQuantitiesAsTheAPIServerStoresThem(t *testing.T) {
	v := newEnv(t)
	const hub, member = "testdata/quantities-hub.yaml", "testdata/quantities-member.yaml"
	code, out, errOut := v.run("drift", "--hub", hub, "--member", member)
	if code != cli.ExitDone || strings.Contains(out, "memory") || errOut != "" {
		t.Errorf("exit code %d, want %d\n%s%s", code, cli.ExitDone, out, errOut)
	}
	stored, err := os.ReadFile(member)
	v.must(err)
	for _, other := range []struct{ from, to, path string }{
		{"cpu: 2001m", "cpu: 2002m", "limits.cpu"},
		{"memory: 1193034540647m", "memory: 1193034540646m", "limits.memory"},
		{"storage: 1431619973940m", "storage: 1431619973941m", "requests.storage"},
	} {
		file := filepath.Join(t.TempDir(), "member.yaml")
		v.must(os.WriteFile(file, bytes.Replace(stored, []byte(other.from), []byte(other.to), 1), 0o600))
		code, out, errOut := v.run("drift", "--hub", hub, "--member", file)
		if code != cli.ExitDiffers || !strings.Contains(out, other.path) {
			t.Errorf("%s: exit code %d, want %d and %s\n%s%s", other.to, code, cli.ExitDiffers, other.path, out, errOut)
		}
	}
}
