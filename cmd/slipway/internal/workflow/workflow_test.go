package workflow

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/hubtarget"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/stages"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// call runs a command line of a root that has the flags of the command's.
func call(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	shared := &cli.Options{IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: &o, ErrOut: &e}, Name: "slipway"}
	root := &cobra.Command{Use: "slipway", SilenceErrors: true, SilenceUsage: true}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.UsageError{Err: err} })
	reach := &target.Options{Options: shared}
	reach.AddFlags(root.PersistentFlags())
	kube := hubtarget.NewFlags(reach)
	kube.AddFlags(root.PersistentFlags())
	root.PersistentFlags().StringVarP(&shared.Output, "output", "o", cli.Table, "")
	root.PersistentFlags().StringVar(&shared.As, "as", "", "")
	root.PersistentFlags().DurationVar(&shared.Timeout, "timeout", 0, "")
	root.AddCommand(New(shared, reach, kube))
	root.SetArgs(append([]string{"workflow"}, args...))
	code = shared.ExitCode(root.ExecuteContext(t.Context()))
	return code, o.String(), e.String()
}

// scene runs command lines on one store, and records their output.
type scene struct {
	t    *testing.T
	dir  string
	text strings.Builder
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t, dir: t.TempDir()}
	if err := os.Mkdir(filepath.Join(s.dir, "app"), 0o700); err != nil {
		t.Fatal(err)
	}
	return s
}

// file puts a file of the tutorial into the directory that is played, with something in the place
// of something else.
func (s *scene) file(name, from string, replace ...string) {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/tutorial", from))
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, "app", name), []byte(strings.NewReplacer(replace...).Replace(string(text))), 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// do runs a command line, in which app is the directory. It must have this exit code.
func (s *scene) do(code int, line string) string {
	s.t.Helper()
	words := strings.Fields(line)
	for i, w := range words {
		if w == "app" {
			words[i] = filepath.Join(s.dir, "app")
		}
	}
	got, out, errOut := call(s.t, append(words, "--store", filepath.Join(s.dir, "store.db"))...)
	if got != code {
		s.t.Errorf("%s: exit code %d, want %d\n%s%s", line, got, code, out, errOut)
	}
	s.text.WriteString("$ slipway workflow " + line + "\n" + steady(out+strings.ReplaceAll(errOut, s.dir+"/", "")))
	return out
}

// steady replaces times.
func steady(text string) string {
	return regexp.MustCompile(`\d{4}-\d\d-\d\dT\S+`).ReplaceAllString(text, "TIME")
}

func (s *scene) golden(name string) {
	s.t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(s.text.String()), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), s.text.String()); diff != "" {
		s.t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// image compares the image that a cluster of the store runs.
func (s *scene) image(cluster, tag string) {
	s.t.Helper()
	store, err := bolt.Open(filepath.Join(s.dir, "store.db"), bolt.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	members := durable.NewFleet(store)
	if err := members.OpenAll(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	if _, got, _ := strings.Cut(imageOn(members.Cluster(cluster)), "rollouts-demo:"); got != tag {
		s.t.Errorf("%s runs %q, want %q", cluster, got, tag)
	}
}

// The tutorial of ACK One's application workflow, its files and its words: test first, and
// production once the workflow is resumed. A new image without a new publishVersion does nothing.
// With a new publishVersion the workflow begins again, is terminated, and is restarted from the
// step at which it ended.
func TestTheTutorial(t *testing.T) {
	s := newScene(t)
	for _, name := range []string{"namespace.yaml", "app-meta.yaml", "policy-topology.yaml", "workflow.yaml", "app.yaml"} {
		s.file(name, name)
	}
	s.do(cli.ExitUnsuccessful, "run app")
	s.image("managedcluster-test", "red")
	s.image("managedcluster-prod", "")
	s.do(cli.ExitDone, "status demo -n demo")
	s.do(cli.ExitDone, "resume demo -n demo --as alice")
	s.do(cli.ExitDone, "run app")
	s.image("managedcluster-prod", "red")
	s.file("app-meta.yaml", "app-meta-blue.yaml")
	s.do(cli.ExitDone, "run app")
	s.image("managedcluster-test", "red")
	s.file("app.yaml", "app-version2.yaml")
	s.do(cli.ExitUnsuccessful, "run app")
	s.image("managedcluster-test", "blue")
	s.do(cli.ExitDone, "terminate demo -n demo --as alice")
	s.do(cli.ExitUnsuccessful, "run app")
	s.do(cli.ExitFailed, "resume demo -n demo --as alice")
	s.do(cli.ExitDone, "restart demo -n demo --step deploy-prod --as alice")
	s.do(cli.ExitDone, "run app --resume --as alice")
	s.do(cli.ExitDone, "status demo -n demo -o wide")
	s.image("managedcluster-prod", "blue")
	s.golden("tutorial.txt")
}

// A workflow with missing parts does not start; the error lists all of them, and the workflow
// starts once they exist.
func TestAnApplicationThatCannotBegin(t *testing.T) {
	s := newScene(t)
	s.file("app.yaml", "app.yaml")
	s.do(cli.ExitFailed, "run app")
	s.do(cli.ExitFailed, "status demo -n demo")
	s.file("workflow.yaml", "workflow.yaml")
	s.do(cli.ExitFailed, "run app")
	s.file("policy-topology.yaml", "policy-topology.yaml")
	s.do(cli.ExitFailed, "run app")
	s.file("broken.yaml", "app-meta.yaml", "kind: Deployment", "kind: Policy\napiVersion: core.oam.dev/v1alpha1", "apiVersion: apps/v1\n", "")
	s.do(cli.ExitFailed, "run app")
	s.file("broken.yaml", "app-meta.yaml")
	s.do(cli.ExitUnsuccessful, "run app")
	s.golden("problem.txt")
}

// An image that does not start blocks the workflow before production. The workflow can be
// suspended in this state, and a new version with a corrected image replaces it by a new
// workflow.
func TestAnImageThatDoesNotComeUp(t *testing.T) {
	s := newScene(t)
	s.file("app-meta.yaml", "app-meta.yaml", ":red", ":broken")
	for _, name := range []string{"policy-topology.yaml", "workflow.yaml", "app.yaml"} {
		s.file(name, name)
	}
	s.do(cli.ExitTimeout, "run app --timeout 2s")
	says := func(want ...string) {
		t.Helper()
		out := s.do(cli.ExitDone, "status demo -n demo")
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("the status is\n%s, want %q in it", out, w)
			}
		}
	}
	says("application/demo: runningWorkflow", "Available: 0/1")
	s.image("managedcluster-test", "broken")
	s.image("managedcluster-prod", "")
	s.do(cli.ExitDone, "suspend demo -n demo --as alice")
	s.do(cli.ExitTimeout, "run app --timeout 1s")
	says("application/demo: workflowSuspending")
	s.do(cli.ExitDone, "resume demo -n demo --as alice")
	s.do(cli.ExitTimeout, "run app --timeout 1s")
	says("application/demo: runningWorkflow")
	s.do(cli.ExitFailed, "restart demo -n demo --step deploy-test --as alice")
	s.file("app-meta.yaml", "app-meta-blue.yaml")
	s.file("app.yaml", "app-version2.yaml")
	s.do(cli.ExitDone, "run app --resume --as alice")
	s.image("managedcluster-prod", "blue")
}

// A workflow whose application has the annotation slipway.dev/rollback is rolled back: the
// clusters get their previous content.
func TestAWorkflowIsRolledBack(t *testing.T) {
	s := newScene(t)
	for _, name := range []string{"app-meta.yaml", "policy-topology.yaml", "workflow.yaml", "app.yaml"} {
		s.file(name, name)
	}
	s.do(cli.ExitDone, "run app --resume --as alice")
	s.do(cli.ExitFailed, "rollback demo -n demo --as alice")
	s.file("app-meta.yaml", "app-meta-blue.yaml")
	s.file("app.yaml", "app-version2.yaml", "annotations:", "annotations:\n    slipway.dev/rollback: '{}'")
	s.do(cli.ExitDone, "run app --resume --as alice")
	s.image("managedcluster-prod", "blue")
	s.do(cli.ExitDone, "rollback demo -n demo --as alice")
	s.do(cli.ExitDone, "run app")
	s.image("managedcluster-test", "red")
	s.image("managedcluster-prod", "red")
}

// A second terminal reaches the process that waits for a person: it shows the status and resumes
// the workflow under its own name. A command that opens the store itself is refused.
func TestSecondTerminalResumesAWaitingWorkflow(t *testing.T) {
	s := newScene(t)
	for _, name := range []string{"app-meta.yaml", "policy-topology.yaml", "workflow.yaml", "app.yaml"} {
		s.file(name, name)
	}
	store := filepath.Join(s.dir, "store.db")
	first := make(chan string, 1)
	go func() {
		code, out, errOut := call(t, "run", filepath.Join(s.dir, "app"), "--wait", "--store", store)
		if code != cli.ExitDone {
			t.Errorf("the first terminal ends with %d: %s", code, errOut)
		}
		first <- out
	}()
	for ready := false; !ready; {
		if t.Context().Err() != nil || t.Failed() {
			t.Fatal("the workflow is not suspended")
		}
		_, out, _ := call(t, "status", "demo", "-n", "demo", "--store", store)
		ready = strings.Contains(out, "application/demo: workflowSuspending") && strings.Contains(out, `Waiting approval to the deploy step "deploy-prod"`)
	}
	s.do(cli.ExitFailed, "restart demo -n demo --as alice")
	s.do(cli.ExitFailed, "resume demo -n demo --step none --as alice")
	s.do(cli.ExitFailed, "suspend other -n demo --as alice")
	s.do(cli.ExitDone, "resume demo -n demo --step deploy-prod --as alice")
	if out := <-first; !strings.Contains(out, "RunCompleted") {
		t.Errorf("the first terminal prints\n%s", out)
	}
	s.image("managedcluster-prod", "red")
	s.do(cli.ExitDone, "status demo -n demo")
	s.golden("second.txt")
}

// With -o json each event of a run is an object on its own line, equal to the event of the
// engine.
func TestEventsAsJSON(t *testing.T) {
	s := newScene(t)
	for _, name := range []string{"app-meta.yaml", "policy-topology.yaml", "workflow.yaml", "app.yaml"} {
		s.file(name, name)
	}
	var last stages.Event
	for line := range strings.Lines(s.do(cli.ExitDone, "run app --resume --as alice -o json")) {
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		last = stages.Event{}
		if err := d.Decode(&last); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	if last.Type != stages.RunCompleted || last.Run != "a.demo.demo.version1" || last.Count != 2 {
		t.Errorf("the last event is %+v", last)
	}
}

// A wrong command line ends with code 2, and the error contains the right form.
func TestAWrongCommandLine(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for line, want := range map[string]string{
		"status demo":           "--store is not set",
		"pause demo":            `unknown command "pause" for`,
		"suspend":               "accepts 1 arg(s)",
		"suspend demo --step s": "unknown flag: --step",
		"suspend demo --as a":   "--store is not set",
		"run":                   "requires at least 1 arg(s)",
		"run x --wait":          "set --store",
		"run x -o yaml":         "events are shown as table, wide or json",
	} {
		code, out, errOut := call(t, strings.Fields(line)...)
		if code != cli.ExitUsage || out != "" || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit code %d, %q, want %d and %q in\n%s", line, code, out, cli.ExitUsage, want, errOut)
		}
	}
	if code, _, errOut := call(t, "status", "demo", "--store", filepath.Join(t.TempDir(), "none")); code != cli.ExitFailed || !strings.Contains(errOut, "no such file") {
		t.Errorf("a store that is not there: %d, %s", code, errOut)
	}
}
