package amc

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/hubtarget"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
)

// call runs the plugin.
func call(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	shared := &cli.Options{IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &o, ErrOut: &e}, Name: "kubectl amc"}
	root := &cobra.Command{Use: "amc", SilenceErrors: true, SilenceUsage: true, Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: shared.Name}}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.UsageError{Err: err} })
	reach := &target.Options{Options: shared}
	reach.AddFlags(root.PersistentFlags())
	kube := hubtarget.NewFlags(reach)
	kube.AddFlags(root.PersistentFlags())
	root.PersistentFlags().StringVarP(&shared.Output, "output", "o", cli.Table, "")
	Complete(root, shared, reach, kube)
	root.SetArgs(args)
	code = shared.ExitCode(root.ExecuteContext(t.Context()))
	return code, o.String(), e.String()
}

// The command sends no changing request to a member.
func TestMembersAreOnlyRead(t *testing.T) {
	var sent []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { sent = append(sent, r.Method) }))
	defer server.Close()
	client := &http.Client{Transport: &reader{t.Context(), http.DefaultTransport}}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodConnect, "GETS", "get"} {
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL+"/api/v1/namespaces/demo", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err == nil {
			_ = response.Body.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "members are only read: "+method+" /api/v1/namespaces/demo is not sent") {
			t.Errorf("%s: %v", method, err)
		}
	}
	response, err := client.Get(server.URL) //nolint:noctx // the test server answers immediately
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if !slices.Equal(sent, []string{http.MethodGet}) {
		t.Errorf("sent %q", sent)
	}
}

// Every way to reach a member has the reader in front.
func TestEveryMemberIsReachedByAReader(t *testing.T) {
	dir := kubeconfigs(t, "one", "two")
	for _, path := range []string{dir, filepath.Join(dir, "contexts")} {
		g := &getter{Options: &cli.Options{As: "alice", Groups: []string{"team"}}, target: &target.Options{Clusters: path}}
		m, err := g.find()
		if err != nil {
			t.Fatal(err)
		}
		names, err := m.chosen(t.Context(), nil)
		if err != nil || !slices.Equal(names, []string{"one", "two"}) {
			t.Errorf("%s has %q: %v", path, names, err)
		}
		config, err := m.reach(t.Context(), "two")
		if err != nil {
			t.Fatal(err)
		}
		if config.Impersonate.UserName != "alice" || !slices.Equal(config.Impersonate.Groups, []string{"team"}) {
			t.Errorf("%s: it is read as %+v", path, config.Impersonate)
		}
		transport, err := rest.TransportFor(config)
		if err != nil {
			t.Fatal(err)
		}
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodDelete, "https://two.invalid/api", nil)
		if response, err := transport.RoundTrip(request); err == nil || !strings.Contains(err.Error(), "members are only read") {
			t.Errorf("%s: a deletion is sent: %v, %v", path, response, err)
		}
	}
}

// kubeconfigs returns a directory with a kubeconfig for each member, and one named contexts with
// a context for each.
func kubeconfigs(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	const text = "apiVersion: v1\nkind: Config\ncurrent-context: %s\nclusters:\n%scontexts:\n%susers: [{name: u, user: {token: t}}]\n"
	clusters, contexts := "", ""
	for _, name := range names {
		cluster := fmt.Sprintf("- {name: %s, cluster: {server: 'https://%[1]s.invalid'}}\n", name)
		context := fmt.Sprintf("- {name: %s, context: {cluster: %[1]s, user: u}}\n", name)
		clusters, contexts = clusters+cluster, contexts+context
		if err := os.WriteFile(filepath.Join(dir, name+".kubeconfig"), fmt.Appendf(nil, text, name, cluster, context), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "contexts"), fmt.Appendf(nil, text, names[0], clusters, contexts), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A Secret of the hub cannot make its reader run a program.
func TestAKubeconfigOfASecretRunsNothing(t *testing.T) {
	const program = "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: 'https://c.invalid'}}]\n" +
		"contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/true, interactiveMode: Never}}}]\n"
	if _, err := member.Kubeconfig([]byte(program), "", (member.SecretOptions{}).Allow); err == nil {
		t.Error("it is accepted")
	}
}

// The errors of a wrong command line and of a missing member contain the right form.
func TestAWrongCommandLine(t *testing.T) {
	dir := kubeconfigs(t, "one", "two")
	t.Setenv("KUBECONFIG", filepath.Join(dir, "none"))
	t.Setenv(clustersVariable, "")
	for line, want := range map[string]string{
		"get":                            "the type of the objects is missing",
		"get ns":                         "no members are named: --clusters or $SLIPWAY_CLUSTERS",
		"get ns --clusters DIR -m three": `there is no member "three": DIR has one, two`,
		"get ns --clusters DIR -m one,":  `there is no member ""`,
		"get ns --clusters DIR/contexts -m three": `there is no member "three": DIR/contexts has one, two`,
		"get ns --clusters DIR -o table2":         "-o table2: unable to match a printer",
		"get ns --clusters DIR -o jsonpath":       "-o jsonpath",
		"get ns --clusters DIR --store x":         "--store: leave it out",
		"get ns --clusters DIR --watch":           "unknown flag: --watch",
		"delete ns demo":                          `unknown command "delete" for "kubectl amc", which only reads members: use kubectl amc get`,
		"workflow pause demo":                     `unknown command "pause" for`,
	} {
		line = strings.ReplaceAll(line, "DIR", dir)
		code, out, errOut := call(t, strings.Fields(line)...)
		if want = strings.ReplaceAll(want, "DIR", dir); code != cli.ExitUsage || out != "" || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit code %d, %q, want %d and %q in\n%s", line, code, out, cli.ExitUsage, want, errOut)
		}
	}
	if code, _, errOut := call(t, "get", "ns", "--clusters", filepath.Join(dir, "none")); code != cli.ExitFailed || !strings.Contains(errOut, "no such file") {
		t.Errorf("a directory that is not there: exit code %d, %s", code, errOut)
	}
}

// The error of a member that does not answer appears below the name of the member, and the output
// continues with the next member.
func TestAMemberThatDoesNotAnswer(t *testing.T) {
	dir := kubeconfigs(t, "one", "two")
	code, out, errOut := call(t, "get", "ns", "--clusters", dir)
	if code != cli.ExitFailed || out != "Run on ManagedCluster one\nRun on ManagedCluster two\n" || strings.Count(errOut, "no such host") != 2 {
		t.Errorf("exit code %d, and it prints\n%s%s", code, out, errOut)
	}
}
