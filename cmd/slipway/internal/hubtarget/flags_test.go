package hubtarget

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
)

const kubeconfig = `apiVersion: v1
kind: Config
clusters:
- {name: one, cluster: {server: "https://127.0.0.1:1"}}
- {name: two, cluster: {server: "https://127.0.0.1:2"}}
contexts:
- {name: one, context: {cluster: one}}
- {name: two, context: {cluster: two, namespace: shop}}
current-context: one
`

// parse returns the flags of a command line.
func parse(t *testing.T, args ...string) (*Flags, *target.Options) {
	t.Helper()
	to := &target.Options{Options: &cli.Options{}}
	f := NewFlags(to)
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	to.AddFlags(flags)
	f.AddFlags(flags)
	flags.StringVar(&to.As, "as", "", "")
	flags.StringSliceVar(&to.Groups, "as-group", nil, "")
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return f, to
}

// The hub is the cluster that kubectl would name, asked as the user of --as; without one the
// command line is wrong.
func TestTheHubIsTheClusterOfKubectl(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ env, args, host, user string }{
		{file, "", "https://127.0.0.1:1", ""},
		{file, "--context two --as ann --as-group leads", "https://127.0.0.1:2", "ann"},
		{"/none", "--kubeconfig " + file, "https://127.0.0.1:1", ""},
	} {
		t.Setenv("KUBECONFIG", c.env)
		f, _ := parse(t, strings.Fields(c.args)...)
		config, err := f.Config()
		if err != nil || config.Host != c.host || config.Impersonate.UserName != c.user || slices.Contains(config.Impersonate.Groups, "leads") != (c.user != "") {
			t.Errorf("%s: %+v, %v", c.args, config, err)
		}
	}
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	f, to := parse(t)
	_, err := f.Config()
	_, none := to.Open(t.Context(), true)
	for _, err := range []error{err, none} {
		if _, is := errors.AsType[cli.UsageError](err); !is || !strings.Contains(err.Error(), "--kubeconfig") {
			t.Errorf("without a cluster: %v", err)
		}
	}
	f, _ = parse(t, "--kubeconfig", "/none/config")
	if _, err := f.Config(); err == nil || !strings.Contains(err.Error(), "--kubeconfig /none/config") {
		t.Errorf("a file that is not there: %v", err)
	}
}
