package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata")

// asProgram makes the test binary the program.
const asProgram = "SLIPWAY_DRIFT_EXAMPLE"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// outcome is what a call of the program brought.
type outcome struct {
	code     int
	out, err string
}

// call runs the program; in is its standard input.
func call(in string, args ...string) outcome {
	var out, errOut bytes.Buffer
	code := run(args, strings.NewReader(in), &out, &errOut)
	return outcome{code, out.String(), errOut.String()}
}

// files writes a hub's and a member's file and returns the flags that name them.
func files(t *testing.T, hub, member string) []string {
	t.Helper()
	dir := t.TempDir()
	var args []string
	for _, f := range [][2]string{{"hub", hub}, {"member", member}} {
		file := filepath.Join(dir, f[0]+".yaml")
		if err := os.WriteFile(file, []byte(f[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "-"+f[0], file)
	}
	return args
}

// compared runs the program on two texts and returns the elements of its JSON.
func compared(t *testing.T, hub, member string, args ...string) []map[string]any {
	t.Helper()
	got := call("", append(files(t, hub, member), append(args, "-o", "json")...)...)
	if got.code != exitSame {
		t.Fatalf("exit %d: %s", got.code, got.err)
	}
	return elements(t, got.out)
}

func elements(t *testing.T, text string) (all []map[string]any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&all); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return all
}

func diffs(e map[string]any) []any {
	l, _ := e["observedDiffs"].([]any)
	return l
}

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}\n"

// The files in testdata, in every format.
func TestWhatTheExampleFilesSay(t *testing.T) {
	for _, comparison := range []string{"PartialComparison", "FullComparison"} {
		for _, format := range []string{"text", "json", "yaml"} {
			got := call("", "-hub", "testdata/hub.yaml", "-member", "testdata/member.yaml", "-crd", "testdata/crd.yaml",
				"-comparison", comparison, "-manager", "slipway", "-o", format)
			if got.code != exitSame || got.err != "" {
				t.Fatalf("exit %d: %s", got.code, got.err)
			}
			golden(t, strings.ToLower(strings.TrimSuffix(comparison, "Comparison"))+"."+format, got.out)
			for l := range strings.Lines(got.out) {
				if format == "text" && utf8.RuneCountInString(strings.TrimSuffix(l, "\n")) > columns {
					t.Errorf("wider than %d columns: %s", columns, l)
				}
			}
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "want", name)
	if *update {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(got), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), -update rewrites it:\n%s", name, diff)
	}
}

// Another client replaced the owner of a Namespace on the member.
func TestAReplacedOwnerIsOneDifference(t *testing.T) {
	ns := "apiVersion: v1\nkind: Namespace\nmetadata: {name: web, labels: {app: web, owner: OWNER}}\n"
	got := compared(t, strings.ReplaceAll(ns, "OWNER", "simon"), strings.ReplaceAll(ns, "OWNER", "chen"))
	want := map[string]any{"path": "/metadata/labels/owner", "keyPath": ".metadata.labels.owner", "class": "Changed", "valueInHub": "simon", "valueInMember": "chen"}
	if diff := cmp.Diff([]any{want}, diffs(got[0])); diff != "" {
		t.Error(diff)
	}
	delete(got[0], "observedDiffs")
	delete(got[0], "fingerprint")
	about := map[string]any{"group": "", "version": "v1", "kind": "Namespace", "namespace": "", "name": "web", "state": "Present", "total": json.Number("1")}
	if diff := cmp.Diff(about, got[0]); diff != "" {
		t.Error(diff)
	}
}

func TestExitCodesTellOnlyWhatTheyAreAskedFor(t *testing.T) {
	same := files(t, configMap+"data: {k: v}", configMap+"data: {k: v}")
	other := files(t, configMap+"data: {k: v}", configMap+"data: {k: w}")
	gone := files(t, configMap, "kind: List\napiVersion: v1\nitems: []\n---\n"+strings.ReplaceAll(configMap, "name: a", "name: c"))
	for name, c := range map[string]struct {
		args []string
		code int
	}{
		"same": {same, exitSame}, "same asked": {append(same, "-exit-code"), exitSame},
		"other": {other, exitSame}, "other asked": {append(other, "-exit-code"), exitDrift},
		"missing": {gone, exitSame}, "missing asked": {append(gone, "-exit-code"), exitDrift},
		"other ignored": {append(other, "-exit-code", "-ignore", "/data/k"), exitSame},
		"other class":   {append(other, "-exit-code", "-ignore", "/data/other", "-ignore", "/metadata"), exitDrift},
	} {
		if got := call("", c.args...); got.code != c.code || got.err != "" {
			t.Errorf("%s: exit %d, want %d: %s", name, got.code, c.code, got.err)
		}
	}
}

func TestWrongFlagsTellWhatIsWrongAndHowItIsUsed(t *testing.T) {
	two := files(t, configMap, configMap)
	for want, args := range map[string][]string{
		"-hub is missing":                        {"-member", "x"},
		"-member is missing":                     {"-hub", "x"},
		"one file only":                          {"-hub", "-", "-member", "-"},
		"must be text, json or yaml":             append(two, "-o", "xml"),
		"must be PartialComparison or Full":      append(two, "-comparison", "none"),
		`unexpected argument "more"`:             append(two, "more"),
		"flag provided but not defined: -colour": append(two, "-colour"),
		"-ignore or -secret":                     append(two, "-ignore", "no/slash"),
		"ignore[0].pointers[0]":                  append(two, "-ignore", "/a~2"),
		"secrets[0]":                             append(two, "-secret", "x"),
	} {
		got := call("", args...)
		if got.code != exitFailed || got.out != "" || !strings.Contains(got.err, want) || !strings.Contains(got.err, "usage: drift") {
			t.Errorf("%q: exit %d, %q, %q", want, got.code, got.out, got.err)
		}
	}
	if got := call("", "-h"); got.code != exitSame || got.err != "" || !strings.Contains(got.out, "usage: drift") {
		t.Errorf("-h: %+v", got)
	}
}

func TestAFileThatIsNotThere(t *testing.T) {
	got := call("", "-hub", "testdata/none.yaml", "-member", "testdata/member.yaml")
	if want := "drift: testdata/none.yaml: no such file or directory\n"; got.err != want || got.code != exitFailed || got.out != "" {
		t.Errorf("%+v", got)
	}
	if got := call("", "-hub", "testdata", "-member", "testdata/member.yaml"); got.code != exitFailed || !strings.Contains(got.err, "testdata: is a directory") {
		t.Errorf("%+v", got)
	}
}

func TestTheStandardInputIsAFile(t *testing.T) {
	args := files(t, configMap+"data: {k: v}", configMap+"data: {k: v}")
	for _, args := range [][]string{{args[0], args[1], "-member", "-"}, {"-hub", "-", args[2], args[3]}} {
		if got := call(configMap+"data: {k: w}", args...); got.code != exitSame || !strings.Contains(got.out, "1 difference\n") {
			t.Errorf("%+v", got)
		}
		if got := call("[", args...); got.code != exitFailed || !strings.HasPrefix(got.err, "drift: standard input:1: document 1: ") {
			t.Errorf("%+v", got)
		}
	}
}

// The program itself, as a process.
func TestAsAProcess(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), self, "-hub", "-", "-member", "testdata/member.yaml", "-exit-code")
	c.Env = append(os.Environ(), asProgram+"=1")
	c.Stdin = strings.NewReader("apiVersion: v1\nkind: Namespace\nmetadata: {name: web, labels: {owner: simon}}\n")
	out, err := c.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitDrift {
		t.Fatalf("%v: %s", err, out)
	}
	if want := "v1 Namespace web: 1 difference\n  .metadata.labels.owner: changed\n    hub     \"simon\"\n    member  \"chen\"\n"; !strings.HasPrefix(string(out), want) {
		t.Errorf("%s", out)
	}
}
