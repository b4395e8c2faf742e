package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend/bolt"
)

// A wrong command line ends the program with 2 and everything that is wrong with it.
func TestAWrongCommandLine(t *testing.T) {
	for line, want := range map[string][]string{
		"-o yaml":                             {"-o", "text, wide or json"},
		"-members d -install":                 {"-members belongs to -kubeconfig", "-install belongs to -kubeconfig"},
		"get app":                             {"-data is missing"},
		"-data d frobnicate":                  {`"frobnicate" is no command`},
		"-data d -kubeconfig f get app":       {"exclude each other"},
		"-kubeconfig f":                       {"-members is missing"},
		"-kubeconfig f -members d apply -f x": {"apply is for simulated clusters: on real ones use kubectl apply"},
		"-kubeconfig f get app demo -m c":     {"get -m: -members is missing"},
		"-data d get pods":                    {`there is no kind "pods"`, "deployment"},
		"-data d get deployment -m c":         {"a name is missing"},
		"-data d get":                         {"get KIND [NAME]"},
		"-data d apply":                       {"-f is missing"},
		"-data d create pod x":                {"only a namespace"},
		"-data d workflow pause demo":         {"suspend, resume, terminate, restart"},
		"-data d workflow suspend demo -step s -m c -wait -1s": {"-step is for workflow restart and resume", "-m is no flag of workflow", "-wait -1s must not be negative"},
		"-f x": {"-f is no flag of the walk"},
	} {
		t.Run(line, func(t *testing.T) {
			out, errOut := do(t, exitUsage, strings.Fields(line)...)
			for _, w := range append(want, "usage: canary") {
				if !strings.Contains(errOut, w) {
					t.Errorf("%q is not in\n%s", w, errOut)
				}
			}
			if out != "" {
				t.Errorf("it prints %q", out)
			}
		})
	}
	if out, _ := do(t, exitDone, "-h"); !strings.Contains(out, "workflow suspend|resume|terminate|restart APP") {
		t.Errorf("the help is %s", out)
	}
}

// scene gives commands on a directory of its own, and writes down what they print.
type scene struct {
	t    *testing.T
	dir  string
	text strings.Builder
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t, dir: t.TempDir()}
	entries, err := tutorial.ReadDir("tutorial")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := readTutorial(e.Name())
		if err == nil {
			err = os.WriteFile(filepath.Join(s.dir, e.Name()), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// do gives a command. The exit code must be this one.
func (s *scene) do(code int, command string) (out string) {
	s.t.Helper()
	args := strings.Fields(strings.ReplaceAll(command, "-f ", "-f "+s.dir+"/"))
	out, errOut := do(s.t, code, append(args, "-data", filepath.Join(s.dir, "data"))...)
	s.text.WriteString("$ " + command + "\n" + steady(out) + strings.ReplaceAll(errOut, s.dir+"/", ""))
	return out
}

// until gives a command again and again until it prints something, and writes down the last time.
func (s *scene) until(want, command string) {
	s.t.Helper()
	before := s.text.String()
	for range 100 {
		s.text.Reset()
		s.text.WriteString(before)
		if strings.Contains(s.do(exitDone, command), want) {
			return
		}
	}
	s.t.Fatalf("canary %s does not print %q", command, want)
}

// file makes a file of one of the tutorial, in which something is something else.
func (s *scene) file(name, from, old, replacement string) {
	s.t.Helper()
	text, err := readTutorial(from)
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, name), bytes.ReplaceAll(text, []byte(old), []byte(replacement)), 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// Commands that are given one by one, each in a process of its own, do what the walk does.
func TestCommandsOneByOne(t *testing.T) {
	s := newScene(t)
	s.do(exitFailed, "apply -f app-meta.yaml")
	s.do(exitDone, "create namespace demo")
	s.do(exitFailed, "create namespace demo")
	s.do(exitDone, "get app -n demo")
	s.do(exitFailed, "get app demo -n demo")
	for _, name := range []string{"app-meta.yaml", "policy-topology.yaml", "workflow.yaml", "app.yaml"} {
		s.do(exitDone, "apply -f "+name)
	}
	s.do(exitDone, "apply -f app.yaml")
	for _, what := range []string{"policy", "workflow", "deployment demo -o wide", "managedclusters", "ns"} {
		s.do(exitDone, "get "+what+" -n demo")
	}
	s.do(exitDone, "workflow resume demo -n demo")
	s.do(exitFailed, "workflow resume other -n demo")
	s.do(exitFailed, "get deployment demo -n demo -m other")
	s.golden("commands.txt")
}

// With -o json what is there is printed whole, and what is said is an object.
func TestJSON(t *testing.T) {
	s := newScene(t)
	if out := s.do(exitDone, "create namespace demo -o json"); out != "{\n    \"message\": \"namespace/demo created\"\n}\n" {
		t.Errorf("create prints %s", out)
	}
	var obj unstructured.Unstructured
	if err := json.Unmarshal([]byte(s.do(exitDone, "get ns demo -o json")), &obj.Object); err != nil || obj.GetName() != "demo" {
		t.Errorf("get prints %v: %v", obj.Object, err)
	}
	var all unstructured.UnstructuredList
	if err := json.Unmarshal([]byte(s.do(exitDone, "get mcl -o json")), &all); err != nil || len(all.Items) != 2 {
		t.Errorf("get prints %d: %v", len(all.Items), err)
	}
}

// What is wrong with an application keeps it from beginning, is told, and is over when it is put right.
func TestAnApplicationThatCannotBegin(t *testing.T) {
	s := newScene(t)
	s.do(exitDone, "create namespace demo")
	s.do(exitDone, "apply -f app.yaml")
	s.do(exitDone, "get app demo -n demo")
	s.do(exitDone, "apply -f workflow.yaml")
	s.do(exitDone, "apply -f policy-topology.yaml")
	s.do(exitDone, "apply -f app-meta.yaml")
	s.do(exitDone, "get app demo -n demo")
	s.golden("problem.txt")
}

// An image that does not come up holds the workflow up, and nothing reaches production; it can be suspended
// and resumed meanwhile. Once it is put right under a new version, the new workflow takes the place of the one
// before.
func TestAnImageThatDoesNotComeUp(t *testing.T) {
	s := newScene(t)
	s.do(exitDone, "create namespace demo")
	s.file("app-meta-broken.yaml", "app-meta.yaml", ":red", ":broken")
	for _, name := range []string{"app-meta-broken.yaml", "policy-topology.yaml", "workflow.yaml"} {
		s.do(exitDone, "apply -f "+name)
	}
	s.do(exitDone, "apply -f app.yaml -wait 100ms")
	s.until("Available: 0/1", "get app demo -n demo -wait 100ms")
	s.do(exitDone, "get deployment demo -n demo -m "+testCluster+" -wait 100ms")
	s.do(exitFailed, "get deployment demo -n demo -m "+prodCluster+" -wait 100ms")
	s.do(exitDone, "workflow suspend demo -n demo -wait 100ms")
	s.until("workflowSuspending", "get app demo -n demo -wait 100ms")
	s.do(exitDone, "workflow resume demo -n demo -wait 100ms")
	s.until("runningWorkflow", "get app demo -n demo -wait 100ms")
	s.do(exitFailed, "workflow restart demo -n demo --step deploy-test -wait 100ms")
	s.do(exitDone, "apply -f app-meta-blue.yaml -wait 100ms")
	s.do(exitDone, "apply -f app-version2.yaml")
	s.until("workflowSuspending", "get app demo -n demo")
	s.do(exitDone, "get deployment demo -n demo -m "+testCluster)
	s.golden("broken.txt")
}

func (s *scene) golden(name string) {
	s.t.Helper()
	golden(s.t, name, s.text.String())
}

// A file that is in use, or of a later version, is told and left alone.
func TestADirectoryThatCannotBeUsed(t *testing.T) {
	s := newScene(t)
	s.do(exitDone, "create namespace demo")
	path := filepath.Join(s.dir, "data", engineFile)
	file, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, errOut := do(t, exitFailed, "get", "ns", "-data", filepath.Join(s.dir, "data")); !strings.Contains(errOut, "in use") {
		t.Errorf("a file in use: %s", errOut)
	}
	if _, err := file.Put(t.Context(), "canary/release/demo/demo", []byte(`{"format": 99}`), ""); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if _, errOut := do(t, exitFailed, "apply", "-f", filepath.Join(s.dir, "app.yaml"), "-data", filepath.Join(s.dir, "data")); !strings.Contains(errOut, "has format 99, this program knows 1") {
		t.Errorf("a record of a later version: %s", errOut)
	}
	if _, errOut := do(t, exitFailed, "get", "ns", "-data", filepath.Join(s.dir, "none", "data")); !strings.Contains(errOut, "no such file") {
		t.Errorf("a directory that cannot be made: %s", errOut)
	}
}

// Interrupted at any command, the walk ends with 130 and goes on when it is called again; in the end it
// says that there is nothing left.
func TestAWalkThatIsInterrupted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	var all strings.Builder
	for code, calls := exitInterrupted, 0; code == exitInterrupted; calls++ {
		if calls > 100 {
			t.Fatal("it does not come to its end")
		}
		ctx, stop := context.WithCancel(t.Context())
		out := &stopper{after: 2, stop: stop}
		var errOut bytes.Buffer
		code = run(ctx, []string{"-data", dir, "-o", "json"}, stdio{strings.NewReader(""), out, &errOut})
		stop()
		all.WriteString(out.String())
		if code == exitFailed || code == exitInterrupted && !strings.Contains(errOut.String(), "the next command goes on") {
			t.Fatalf("exit code %d: %s", code, errOut.String())
		}
	}
	script, err := readTutorial("walk.txt")
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, s := range readSteps(string(script)) {
		i := strings.Index(all.String()[at:], `"command":"`+s.command+`"`)
		if i < 0 {
			t.Fatalf("%s is missing after\n%s", s.command, all.String()[:at])
		}
		at += i + 1
	}
	if _, errOut := do(t, exitDone, "-data", dir); !strings.Contains(errOut, "everything was done already") {
		t.Errorf("at the end: %s", errOut)
	}
}

// stopper interrupts when it was written to so often.
type stopper struct {
	bytes.Buffer
	after int
	stop  func()
}

func (s *stopper) Write(text []byte) (int, error) {
	if s.after--; s.after <= 0 {
		s.stop()
	}
	return s.Buffer.Write(text)
}
