package hubverbs

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
)

// A dry run of the installation names what would be done to each object, and changes nothing. The
// exported objects, applied by kubectl in their order, are those of an installation.
func TestExportAndDryRunOfTheInstallation(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t)
	install := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		args = append([]string{"hub", "install", "--kubeconfig", w.kubeconfig("hub")}, args...)
		if got := run(t.Context(), args, &out, &out); got != cli.ExitDone {
			t.Fatalf("%s ended with %d:\n%s", strings.Join(args, " "), got, out.String())
		}
		return out.String()
	}
	// wantAll checks the outcomes of an installation, without that of the role for discovered
	// kinds.
	wantAll := func(out, outcome string) {
		t.Helper()
		n := 0
		for line := range strings.Lines(out) {
			if n++; !strings.HasSuffix(line, " "+outcome+"\n") && !strings.Contains(line, "slipway-hub-source-discovered") {
				t.Errorf("want %s: %s", outcome, line)
			}
		}
		if n < 40 {
			t.Errorf("%d lines:\n%s", n, out)
		}
	}
	wantAll(install("--dry-run"), "Created")
	if out, err := w.run("hub", ".", "get", "crd", "-o", "name"); err != nil || strings.Contains(out, "kubernetes-fleet") {
		t.Fatalf("after a dry run the cluster has %s: %v", out, err)
	}
	file := filepath.Join(w.files, "hub.yaml")
	write(t, file, []byte(install("--export")))
	if out, err := w.run("hub", ".", "apply", "--server-side", "--field-manager=slipway-install", "-f", file); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wantAll(install("--dry-run"), "Unchanged")
	wantAll(install(), "Unchanged")
	if out, err := w.run("hub", ".", "patch", "clusterrole", "slipway-viewer", "--type=json", `-p=[{"op":"replace","path":"/rules","value":[]}]`); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for range 2 {
		if out := install("--dry-run"); !strings.Contains(out, "ClusterRole slipway-viewer Updated\n") || strings.Count(out, "Updated") != 1 {
			t.Errorf("a dry run of an update:\n%s", out)
		}
	}
	var out bytes.Buffer
	if got := run(t.Context(), []string{"hub", "install", "--export", "--dry-run"}, &out, &out); got != cli.ExitUsage {
		t.Errorf("--export with --dry-run ended with %d:\n%s", got, out.String())
	}
}
