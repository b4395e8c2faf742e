package hubverbs

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
)

// Both verbs have the same default of the setting. A hub prints the setting at its start and
// refuses a different setting of the definitions. The message about a switch names the setting
// and the effect of the switch.
func TestTheCompatibilitySettingOfTheCommand(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t)
	write(t, filepath.Join(w.files, "members", "README"), nil)
	ends := func(code int, args []string, texts ...string) {
		t.Helper()
		var out bytes.Buffer
		got := run(t.Context(), append(args, "--kubeconfig", w.kubeconfig("hub")), &out, &out)
		if got != code {
			t.Fatalf("%s ended with %d, want %d:\n%s", strings.Join(args, " "), got, code, out.String())
		}
		for _, text := range texts {
			if !strings.Contains(out.String(), text) {
				t.Errorf("%s: no %q in\n%s", strings.Join(args, " "), text, out.String())
			}
		}
	}
	install, serve := []string{"hub", "install"}, []string{"hub", "--members", filepath.Join(w.files, "members"), "--listen", ""}
	ends(cli.ExitDone, install)
	ends(cli.ExitFailed, append(serve, "--compatibility", "v0.18"), "compatibility: v0.18\n", "is installed for 2025-07", "hub install --compatibility v0.18")
	ends(cli.ExitUsage, append(serve, "--compatibility", "v0.17"), `compatibility "v0.17" is not known: use 2025-07 or v0.18`)
	ends(cli.ExitDone, append(install, "--compatibility", "v0.18"), "the definitions change from compatibility 2025-07 to v0.18: start hubs with v0.18")
	out, err := w.run("hub", ".", "get", "crd", "clusterstagedupdateruns.placement.kubernetes-fleet.io", "-L", "slipway.dev/compatibility", "--no-headers")
	if err != nil || !strings.HasSuffix(strings.TrimSpace(out), "v0.18") {
		t.Errorf("the definition shows %q: %v", out, err)
	}
	ends(cli.ExitFailed, serve, "compatibility: 2025-07\n", "is installed for v0.18")
	ends(cli.ExitFailed, install, "the definitions on the server have the compatibility v0.18: name that setting to keep them, or 2025-07 to replace them")
	ends(cli.ExitDone, append(install, "--compatibility", "v0.18"))
	ends(cli.ExitDone, append(install, "--compatibility", "2025-07"), "the definitions change from compatibility v0.18 to 2025-07")
}
