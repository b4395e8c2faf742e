package hubverbs

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
)

// A preview of the uninstallation lists the objects and deletes none. While a placement exists the
// command refuses and names the remedy. Afterwards it deletes everything, says so if nothing is
// left, and the cluster can be set up again.
func TestUninstallByTheCommand(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t)
	uninstall := func(code int, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		args = append([]string{"hub", "uninstall", "--kubeconfig", w.kubeconfig("hub")}, args...)
		if got := run(t.Context(), args, &out, &out); got != code {
			t.Fatalf("%s ended with %d, want %d:\n%s", strings.Join(args, " "), got, code, out.String())
		}
		return out.String()
	}
	kubectl := func(args ...string) string {
		t.Helper()
		out, err := w.run("hub", ".", args...)
		if err != nil {
			t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
		}
		return out
	}
	w.install()
	const definition = "clusterresourceplacements.placement.kubernetes-fleet.io"
	for _, text := range []string{definition, "slipway-hub", "slipway-system"} {
		if out := uninstall(cli.ExitDone, "--preview"); !strings.Contains(out, text) {
			t.Errorf("the preview does not list %s:\n%s", text, out)
		}
	}
	kubectl("get", "crd", definition)
	file := filepath.Join(w.files, "placement.yaml")
	write(t, file, []byte(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: web}
spec: {resourceSelectors: [{group: "", version: v1, kind: Namespace, name: web}]}`))
	kubectl("apply", "-f", file)
	if out := uninstall(cli.ExitFailed); !strings.Contains(out, "web") || !strings.Contains(out, "or set --force") {
		t.Errorf("the refusal is %q", out)
	}
	kubectl("get", "crp", "web")
	kubectl("delete", "crp", "web")
	if out := uninstall(cli.ExitDone); !strings.Contains(out, definition) {
		t.Errorf("%s is not reported as deleted:\n%s", definition, out)
	}
	if out := kubectl("get", "crd", "-o", "name"); strings.Contains(out, "kubernetes-fleet.io") {
		t.Errorf("there are still definitions:\n%s", out)
	}
	w.eventually("nothing to be left", func() error {
		_, err := w.run("hub", ".", "wait", "--for=delete", "ns/slipway-system", "--timeout=60s")
		return err
	})
	if out := uninstall(cli.ExitDone); !strings.Contains(out, "nothing is installed") {
		t.Errorf("without an installation the command says %q", out)
	}
	w.install()
	kubectl("get", "crd", definition)
}
