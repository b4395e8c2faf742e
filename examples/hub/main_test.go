package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Wrong flags end the program with 2 and everything that is wrong; a hub that cannot serve ends it with 1
// and the reason.
func TestTheProgramSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.kubeconfig")
	if err := os.WriteFile(broken, []byte("token: very-secret\n\tnot YAML"), 0o600); err != nil {
		t.Fatal(err)
	}
	unused := filepath.Join(dir, "unused.kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n" +
		"contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
	if err := os.WriteFile(unused, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		code int
		want []string
	}{
		"nothing":              {nil, exitUsage, []string{"-kubeconfig is missing", "-members is missing"}},
		"nothing to aggregate": {[]string{"-kubeconfig", "f", "-members", "d", "-aggregate"}, exitUsage, []string{"-aggregate", "add -install"}},
		"no members to fence":  {[]string{"-kubeconfig", "f", "-install-only", "-fence"}, exitUsage, []string{"-fence", "leave it or -install-only out"}},
		"an argument":          {[]string{"-kubeconfig", "f", "-members", "d", "serve"}, exitUsage, []string{`unexpected argument "serve"`}},
		"an unknown flag":      {[]string{"-kubecfg", "f"}, exitUsage, []string{"flag provided but not defined: -kubecfg"}},
		"a wrong duration":     {[]string{"-lease", "15"}, exitUsage, []string{"-lease"}},
		"help":                 {[]string{"-h"}, exitDone, []string{"-install", "-members DIR"}},
		"no kubeconfig":        {[]string{"-kubeconfig", filepath.Join(dir, "none"), "-members", dir}, exitFailed, []string{"-kubeconfig", "no such file"}},
		"a broken one":         {[]string{"-kubeconfig", broken, "-members", dir}, exitFailed, []string{"-kubeconfig " + broken}},
		"no members":           {[]string{"-kubeconfig", unused, "-members", filepath.Join(dir, "none"), "-listen", ""}, exitFailed, []string{"-members"}},
		"no hub":               {[]string{"-kubeconfig", unused, "-members", dir, "-listen", ""}, exitFailed, []string{"127.0.0.1:1"}},
		"a lease too short":    {[]string{"-kubeconfig", unused, "-members", dir, "-lease", "1ms"}, exitFailed, []string{"LeaseDuration is 1ms: it must be at least 1s"}},
		"an address in use?":   {[]string{"-kubeconfig", unused, "-members", dir, "-listen", "256.0.0.1:1"}, exitFailed, []string{"-listen"}},
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
				if !strings.Contains(errOut.String(), want) {
					t.Errorf("the error output lacks %q:\n%s", want, errOut.String())
				}
			}
			if strings.Contains(errOut.String()+out.String(), "very-secret") {
				t.Errorf("it shows what is in a kubeconfig:\n%s", errOut.String())
			}
		})
	}
}
