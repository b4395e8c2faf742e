package hubverbs

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
)

// A preview of the uninstallation lists the objects and deletes none. While a placement exists, and
// while a hub leads, the command refuses and names the remedy. Without a terminal it needs --yes.
// It says how many objects of each kind it will delete. Afterwards it deletes everything, and says
// so if nothing is left. An installation right after that waits for the end of the deletion.
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
	write(t, w.kubeconfig("member1"), w.servers["hub"].Kubeconfig())
	_, stop := w.begin()
	w.eventually("the hub to lead and to register its member", func() error {
		holder, err := w.run("hub", ".", "get", "lease", "slipway-hub", "-n", "slipway-system", "-o", "jsonpath={.spec.holderIdentity}")
		if err == nil && holder == "" {
			err = errors.New("no hub has the lease")
		}
		_, unregistered := w.run("hub", ".", "get", "membercluster", "member1")
		return errors.Join(err, unregistered)
	})
	if out := uninstall(cli.ExitFailed, "--yes"); !strings.Contains(out, "leads this cluster: stop it first, or set --while-led") {
		t.Errorf("while a hub leads, the command says %q", out)
	}
	stop()
	const counted = "will be deleted, with the records of the hub in the namespace slipway-system, and these objects of the Fleet API:\n  1 MemberCluster\n"
	if out := uninstall(cli.ExitUsage); !strings.Contains(out, counted) || !strings.Contains(out, "nothing was deleted: --yes is not set") {
		t.Errorf("without --yes it says %q", out)
	}
	kubectl("get", "crd", definition)
	if out := uninstall(cli.ExitDone, "--yes"); !strings.Contains(out, definition) || !strings.Contains(out, counted) {
		t.Errorf("%s is not reported as deleted:\n%s", definition, out)
	}
	w.install() // it waits for the end of the deletion of the namespace
	if out := uninstall(cli.ExitDone, "--yes"); !strings.Contains(out, "there are no objects of the Fleet API") {
		t.Errorf("without objects it says %q", out)
	}
	if out := kubectl("get", "crd", "-o", "name"); strings.Contains(out, "kubernetes-fleet.io") {
		t.Errorf("there are still definitions:\n%s", out)
	}
	w.eventually("nothing to be left", func() error {
		_, err := w.run("hub", ".", "wait", "--for=delete", "ns/slipway-system", "--timeout=60s")
		return err
	})
	if out := uninstall(cli.ExitDone, "--yes"); !strings.Contains(out, "nothing is installed") {
		t.Errorf("without an installation the command says %q", out)
	}
	w.install()
	kubectl("get", "crd", definition)
}
