package hubverbs

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/hubtarget"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
)

// run runs the command with the verb hub, and returns its exit code.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	o := &cli.Options{IOStreams: genericiooptions.IOStreams{Out: out, ErrOut: errOut}, Name: "slipway"}
	root := &cobra.Command{Use: "slipway", SilenceUsage: true, SilenceErrors: true}
	root.SetOut(out)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.UsageError{Err: err} })
	kube := hubtarget.NewFlags(&target.Options{Options: o})
	kube.AddFlags(root.PersistentFlags())
	root.AddCommand(New(o, kube), NewMigrate(o, kube))
	root.SetArgs(args)
	return o.ExitCode(root.ExecuteContext(ctx))
}

// Wrong flags end the program with 2 and everything that is wrong; a hub that cannot serve ends
// it with 1 and the reason.
func TestExitCodesAndErrors(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.kubeconfig")
	if err := os.WriteFile(broken, []byte("token: very-secret\n\tnot YAML"), 0o600); err != nil {
		t.Fatal(err)
	}
	unused := filepath.Join(dir, "unused.kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n" +
		"users: [{name: u, user: {token: t}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\ncurrent-context: c\n"
	if err := os.WriteFile(unused, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	rules := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(rules, []byte("- {kind: Pod, ready: slef.ok}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		code int
		want []string
	}{
		"no members are named":         {[]string{"hub", "--kubeconfig", "f"}, cli.ExitUsage, []string{"--members is not set"}},
		"no members to migrate":        {[]string{"migrate", "--kubeconfig", "f"}, cli.ExitUsage, []string{"--members is not set"}},
		"no hub to migrate":            {[]string{"migrate", "plan", "--kubeconfig", unused, "--members", dir}, cli.ExitFailed, []string{"127.0.0.1:1"}},
		"help to migrate":              {[]string{"migrate", "--help"}, cli.ExitDone, []string{"take-over", "give-back", "--backup"}},
		"an argument":                  {[]string{"hub", "--kubeconfig", "f", "--members", "d", "serve"}, cli.ExitUsage, []string{`unknown command "serve"`, "hub --help"}},
		"an unknown flag":              {[]string{"hub", "--kubecfg", "f"}, cli.ExitUsage, []string{"--kubecfg"}},
		"a wrong duration":             {[]string{"hub", "--lease", "15"}, cli.ExitUsage, []string{"--lease"}},
		"an argument to install":       {[]string{"hub", "install", "all"}, cli.ExitUsage, []string{"all", "hub install --help"}},
		"help":                         {[]string{"hub", "--help"}, cli.ExitDone, []string{"slipway hub install --kubeconfig", "--members"}},
		"no cluster":                   {[]string{"hub", "--members", dir}, cli.ExitUsage, []string{"no cluster is named", "--kubeconfig"}},
		"no cluster to install":        {[]string{"hub", "install"}, cli.ExitUsage, []string{"no cluster is named", "--kubeconfig"}},
		"no kubeconfig":                {[]string{"hub", "--kubeconfig", filepath.Join(dir, "none"), "--members", dir}, cli.ExitFailed, []string{"--kubeconfig", "no such file"}},
		"a broken one":                 {[]string{"hub", "--kubeconfig", broken, "--members", dir}, cli.ExitFailed, []string{"--kubeconfig " + broken}},
		"no such context":              {[]string{"hub", "--kubeconfig", unused, "--context", "none", "--members", dir}, cli.ExitFailed, []string{`"none" does not exist`}},
		"no members":                   {[]string{"hub", "--kubeconfig", unused, "--members", filepath.Join(dir, "none"), "--listen", ""}, cli.ExitFailed, []string{"--members"}},
		"no hub":                       {[]string{"hub", "--kubeconfig", unused, "--members", dir, "--listen", ""}, cli.ExitFailed, []string{"127.0.0.1:1"}},
		"no hub to install":            {[]string{"hub", "install", "--kubeconfig", unused}, cli.ExitFailed, []string{"127.0.0.1:1"}},
		"a lease too short":            {[]string{"hub", "--kubeconfig", unused, "--members", dir, "--lease", "1ms"}, cli.ExitFailed, []string{"LeaseDuration is 1ms: it must be at least 1s"}},
		"a rule that does not compile": {[]string{"hub", "--kubeconfig", unused, "--members", dir, "--health-rules", rules}, cli.ExitFailed, []string{"--health-rules: " + rules + ": celhealth: rules[0].ready: ", ": 1:1: undeclared"}},
		"a wrong server of metrics":    {[]string{"hub", "--kubeconfig", unused, "--members", dir, "--prometheus", "ftp://x"}, cli.ExitFailed, []string{"--prometheus: "}},
		"a kind in lower case":         {[]string{"hub", "--namespace-deny", "secret"}, cli.ExitUsage, []string{"--namespace-deny", `"secret" is no group, and a kind begins with an upper-case letter`}},
		"no kind":                      {[]string{"hub", "--namespace-only", "ConfigMap,"}, cli.ExitUsage, []string{"--namespace-only", `"" names no kind`}},
		"a kind of a denied group":     {[]string{"hub", "--kubeconfig", unused, "--members", dir, "--namespace-allow", "Role.rbac.authorization.k8s.io"}, cli.ExitUsage, []string{"the group is denied as a whole: allow rbac.authorization.k8s.io"}},
		"a kind that is never placed":  {[]string{"hub", "--kubeconfig", unused, "--members", dir, "--namespace-allow", "Pod"}, cli.ExitUsage, []string{"--namespace-allow Pod: no placement brings this kind"}},
		"a wrong address":              {[]string{"hub", "--kubeconfig", unused, "--members", dir, "--listen", "256.0.0.1:1"}, cli.ExitFailed, []string{"--listen"}},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			code := run(ctx, tc.args, &out, &errOut)
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			for _, want := range tc.want {
				if !strings.Contains(out.String()+errOut.String(), want) {
					t.Errorf("the output lacks %q:\n%s%s", want, out.String(), errOut.String())
				}
			}
			if strings.Contains(errOut.String()+out.String(), "very-secret") {
				t.Errorf("it shows what is in a kubeconfig:\n%s", errOut.String())
			}
		})
	}
}
