package workflow

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
)

// suspendScene has an application whose workflow has these steps, and the policies one and two.
func suspendScene(t *testing.T, workflow string) *scene {
	t.Helper()
	s := newScene(t)
	base, err := os.ReadFile("testdata/suspend/base.yaml")
	if err != nil {
		t.Fatal(err)
	}
	app := `
---
apiVersion: core.oam.dev/v1beta1
kind: Application
metadata: {name: demo, namespace: demo, annotations: {app.oam.dev/publishVersion: v1}}
spec:
  components: [{name: demo, type: ref-objects, properties: {objects: [{apiVersion: apps/v1, kind: Deployment, name: demo}]}}]
  workflow:
` + workflow
	if err := os.WriteFile(filepath.Join(s.dir, "app", "app.yaml"), append(base, app...), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// ends checks the exit code of a command line, the phase of the application, steps as "NAME
// PHASE", and the images of one and two.
func (s *scene) ends(code int, line, phase, one, two string, steps ...string) {
	s.t.Helper()
	s.do(code, line)
	out := s.do(cli.ExitDone, "status demo -n demo")
	if !strings.Contains(out, "application/demo: "+phase+",") {
		s.t.Errorf("the phase is not %s:\n%s", phase, out)
	}
	for _, want := range steps {
		found := false
		for row := range strings.Lines(out) {
			f := strings.Fields(row)
			found = found || len(f) > 2 && f[0]+" "+f[2] == want
		}
		if !found {
			s.t.Errorf("no step %q in\n%s", want, out)
		}
	}
	s.image("one", one)
	s.image("two", two)
}

// A step that waits for a person until its timeout fails the workflow. The steps that always run
// are run, and the command waits for them.
func TestASuspendedStepTimesOut(t *testing.T) {
	const always = "    - {name: note, type: deploy, if: always, properties: {policies: [two]}}\n"
	for name, workflow := range map[string]string{
		"a suspend step": `
    steps:
    - {name: first, type: deploy, timeout: 1m, properties: {policies: [one]}}
    - {name: hold, type: suspend, timeout: 2s}
` + always,
		"a step-group": `
    mode: {steps: StepByStep, subSteps: StepByStep}
    steps:
    - name: hold
      type: step-group
      timeout: 2s
      subSteps:
      - {name: first, type: deploy, properties: {policies: [one]}}
      - {name: child, type: suspend}
` + always,
		"a suspend step of a step-group": `
    steps:
    - name: group
      type: step-group
      subSteps:
      - {name: first, type: deploy, properties: {policies: [one]}}
      - {name: hold, type: suspend, timeout: 2s}
` + always,
		"a deploy step of a step-group that waits to begin": `
    steps:
    - name: hold
      type: step-group
      timeout: 2s
      subSteps:
      - {name: first, type: deploy, properties: {policies: [one]}}
      - {name: child, type: deploy, properties: {auto: false, policies: [three]}}
` + always,
		"a graph": `
    mode: {steps: DAG}
    steps:
    - {name: first, type: deploy, properties: {policies: [one]}}
    - {name: hold, type: suspend, timeout: 2s, dependsOn: [first]}
    - {name: note, type: deploy, if: always, dependsOn: [hold], properties: {policies: [two]}}
`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := suspendScene(t, workflow)
			s.ends(cli.ExitUnsuccessful, "run app", "workflowFailed", "red", "red", "hold failed", "note succeeded")
		})
	}
}

// A step that waits for a person without an end, or as long as a person says, is final; the one
// with a duration is not.
func TestASuspendedStepThatDoesNotTimeOut(t *testing.T) {
	const next = "    - {name: next, type: deploy, properties: {policies: [two]}}\n"
	t.Run("a duration", func(t *testing.T) {
		t.Parallel()
		s := suspendScene(t, "\n    steps:\n    - {name: hold, type: suspend, properties: {duration: 2s}}\n"+next)
		s.ends(cli.ExitDone, "run app", "running", "", "red", "hold succeeded", "next succeeded")
	})
	t.Run("a duration within a timeout", func(t *testing.T) {
		t.Parallel()
		s := suspendScene(t, "\n    steps:\n    - {name: hold, type: suspend, timeout: 1h, properties: {duration: 2s}}\n"+next)
		s.ends(cli.ExitDone, "run app", "running", "", "red", "hold succeeded", "next succeeded")
	})
	t.Run("a deploy step that waits to begin", func(t *testing.T) { // its timeout begins with its first cluster
		t.Parallel()
		s := suspendScene(t, "\n    steps:\n    - {name: hold, type: deploy, timeout: 8s, properties: {auto: false, policies: [one]}}\n"+next)
		s.ends(cli.ExitUnsuccessful, "run app", "workflowSuspending", "", "", "hold suspending")
		time.Sleep(9 * time.Second) // longer than the timeout, which must be enough for the step on a busy machine
		s.ends(cli.ExitUnsuccessful, "run app", "workflowSuspending", "", "", "hold suspending")
		s.ends(cli.ExitDone, "run app --resume", "running", "red", "red", "hold succeeded", "next succeeded")
	})
	t.Run("resumed", func(t *testing.T) {
		t.Parallel()
		s := suspendScene(t, "\n    steps:\n    - {name: hold, type: suspend, timeout: 1h}\n"+next)
		s.ends(cli.ExitDone, "run app --resume --timeout 1m", "running", "", "red", "hold succeeded", "next succeeded")
	})
	t.Run("suspended by a person", func(t *testing.T) { // the timeout stands still
		t.Parallel()
		s := suspendScene(t, "\n    steps:\n    - {name: hold, type: suspend, timeout: 10m}\n"+next)
		s.do(cli.ExitTimeout, "run app --timeout 1s")
		s.do(cli.ExitDone, "suspend demo -n demo")
		s.ends(cli.ExitUnsuccessful, "run app", "workflowSuspending", "", "", "hold suspending")
		s.ends(cli.ExitDone, "run app --resume", "running", "", "red", "hold succeeded", "next succeeded")
	})
}

// A workflow that is terminated while it is suspended runs the steps that always run. Such a step
// may wait for a person itself, until its timeout.
func TestAWorkflowIsTerminatedWhileItIsSuspended(t *testing.T) {
	for name, timeout := range map[string]string{"without a timeout": "", "with a timeout": "timeout: 10m, "} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := suspendScene(t, fmt.Sprintf(`
    steps:
    - {name: first, type: deploy, properties: {policies: [one]}}
    - {name: hold, %stype: suspend}
    - {name: ask, type: suspend, if: always, timeout: 2s}
    - {name: note, type: deploy, if: always, properties: {policies: [two]}}
`, timeout))
			code := cli.ExitUnsuccessful
			if timeout != "" {
				code = cli.ExitTimeout
			}
			s.ends(code, "run app --timeout 3s", "workflowSuspending", "red", "", "hold suspending")
			s.do(cli.ExitDone, "terminate demo -n demo")
			s.ends(cli.ExitUnsuccessful, "run app", "workflowTerminated", "red", "red", "hold failed", "ask failed", "note succeeded")
		})
	}
}

// With --resume, each request is answered once, also if an engine takes the answer late.
func TestARequestIsAnsweredOnce(t *testing.T) {
	s := newScene(t)
	for _, name := range []string{"app-meta.yaml", "policy-topology.yaml", "workflow.yaml", "app.yaml"} {
		s.file(name, name)
	}
	s.do(cli.ExitUnsuccessful, "run app")
	docs, err := readFiles([]string{filepath.Join(s.dir, "app")}, "demo")
	if err != nil {
		t.Fatal(err)
	}
	store, err := bolt.Open(filepath.Join(s.dir, "store.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	shared := &cli.Options{IOStreams: genericiooptions.IOStreams{Out: io.Discard, ErrOut: io.Discard}, As: "alice"}
	p := &player{options: &options{Options: shared, target: &target.Options{Options: shared}}, resume: true, answered: map[approval.Binding]bool{}}
	if p.simulation, err = newSimulation(t.Context(), store, docs); err != nil {
		t.Fatal(err)
	}
	outcomes, _, err := p.reconcile(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	records := func() (n int) {
		for _, err := range store.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	before := records()
	if err := p.answer(t.Context(), outcomes); err != nil {
		t.Fatal(err)
	}
	answered := records()
	goOn, err := p.goOn(t.Context(), outcomes) // no engine has taken the answer
	if err != nil || !goOn {
		t.Fatalf("goOn = %t, %v", goOn, err)
	}
	if answered != before+1 || records() != answered {
		t.Errorf("records: %d before the answer, %d after it, %d at the next look; want one more and no second one", before, answered, records())
	}
}
