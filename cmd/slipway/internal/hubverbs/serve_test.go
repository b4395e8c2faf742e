package hubverbs

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
)

// A hub on a cluster without an installation names the command that is missing. A kubeconfig that
// cannot be used is logged with its file, and its member is registered once the file is corrected.
// A hub that waits for another one names it.
func TestHubNamesItsObstacles(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t)
	file := w.kubeconfig("member1")
	write(t, file, []byte("very-secret: [junk"))
	var out bytes.Buffer
	args := []string{"hub", "--kubeconfig", w.kubeconfig("hub"), "--members", filepath.Join(w.files, "members"), "--listen", ""}
	if code := run(t.Context(), args, &out, &out); code != cli.ExitFailed || !strings.Contains(out.String(), "is no hub: slipway hub install makes it one") {
		t.Errorf("without an installation: %d, %s", code, out.String())
	}
	w.install()
	first, _ := w.begin("--lease", "3s")
	says := func(hub *output, want string) {
		t.Helper()
		w.eventually("the hub to say "+want, func() error {
			if !strings.Contains(hub.String(), want) {
				return errors.New(hub.String())
			}
			return nil
		})
	}
	says(first, `file=`+file)
	if _, err := w.run("hub", ".", "get", "membercluster", "member1"); err == nil || strings.Contains(first.String(), "very-secret") {
		t.Errorf("the member is registered, or the file is shown: %v\n%s", err, first.String())
	}
	if strings.Contains(first.String(), "permanent error") {
		t.Errorf("it says permanent error:\n%s", first.String())
	}
	write(t, file, w.servers["hub"].Kubeconfig())
	says(first, "registered member member1")
	if n := strings.Count(first.String(), "cannot be used"); n != 1 {
		t.Errorf("the file is logged %d times:\n%s", n, first.String())
	}
	w.eventually("the hub to lead", func() error {
		holder, err := w.run("hub", ".", "get", "lease", "slipway-hub", "-n", "slipway-system", "-o", "jsonpath={.spec.holderIdentity}")
		if err == nil && holder == "" {
			err = errors.New("no hub has the lease")
		}
		return err
	})
	holder, _ := w.run("hub", ".", "get", "lease", "slipway-hub", "-n", "slipway-system", "-o", "jsonpath={.spec.holderIdentity}")
	second, _ := w.begin("--lease", "3s")
	says(second, "hub "+holder+" has the lease: this hub leads once that hub has not renewed it for 3s")
	if n := strings.Count(second.String(), "has the lease"); n != 1 {
		t.Errorf("it is said %d times:\n%s", n, second.String())
	}
}
