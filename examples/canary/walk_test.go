package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what the program prints to testdata")

// do gives the program a command line and returns what it printed.
func do(t *testing.T, code int, args ...string) (out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	if got := run(t.Context(), args, stdio{strings.NewReader(""), &o, &e}); got != code {
		t.Errorf("canary %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, code, o.String(), e.String())
	}
	return o.String(), e.String()
}

// steady replaces ages, and the spaces whose number depends on them.
func steady(text string) string {
	text = regexp.MustCompile(`(?m)([ "])\d+(s|m\d*s?)( *)($|\s|\\n)`).ReplaceAllString(text, "${1}AGE${4}")
	return regexp.MustCompile(`AGE +`).ReplaceAllString(text, "AGE   ")
}

// golden holds what was printed against what it was before.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// The walk prints what the tutorial prints, command by command.
func TestTheTutorial(t *testing.T) {
	out, errOut := do(t, exitDone)
	if errOut != "" {
		t.Errorf("it complains: %s", errOut)
	}
	golden(t, "walk.txt", steady(out))
}

// The outputs that the tutorial has in print, but for the names of the clusters and the ages.
func TestTheWordsOfTheTutorial(t *testing.T) {
	out, _ := do(t, exitDone)
	for _, want := range []string{
		`
NAME   COMPONENT   TYPE          PHASE                HEALTHY   STATUS   AGE
demo   demo        ref-objects   workflowSuspending   true               AGE`, `
Run on ManagedCluster managedcluster-test
NAME   READY   UP-TO-DATE   AVAILABLE   AGE
demo   1/1     1            1           AGE`, `
Run on ManagedCluster managedcluster-prod
Error from server (NotFound): deployments.apps "demo" not found
`, `
Successfully resume workflow: demo
`, `
Run on ManagedCluster managedcluster-prod
NAME   READY   UP-TO-DATE   AVAILABLE   AGE
demo   1/1     1            1           AGE`,
	} {
		if !strings.Contains(steady(out), want) {
			t.Errorf("it does not print%s", want)
		}
	}
}
