package drift

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/clitest"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata")

// call runs the verb; in is its standard input.
func call(t *testing.T, in string, args ...string) clitest.Result {
	t.Helper()
	return clitest.Call(t, verbs, in, append([]string{"drift"}, args...)...)
}

// verbs returns the verb drift. Its comparison of a placement only returns an error.
func verbs(o *cli.Options) []*cobra.Command {
	cmd := &cobra.Command{Use: "drift", Args: cli.Arguments(cobra.ExactArgs(1)), RunE: func(*cobra.Command, []string) error {
		return errors.New("a placement is compared")
	}}
	AddFiles(cmd, o)
	return []*cobra.Command{cmd}
}

// inputs writes a hub's and a member's file and returns the flags that name them.
func inputs(t *testing.T, hub, member string) []string {
	t.Helper()
	dir := t.TempDir()
	var args []string
	for _, f := range [][2]string{{"hub", hub}, {"member", member}} {
		file := filepath.Join(dir, f[0]+".yaml")
		if err := os.WriteFile(file, []byte(f[1]), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--"+f[0], file)
	}
	return args
}

// compared runs the verb on two texts and returns the elements of its JSON.
func compared(t *testing.T, hub, member string, args ...string) []map[string]any {
	t.Helper()
	got := call(t, "", append(inputs(t, hub, member), append(args, "-o", "json")...)...)
	if got.Code == cli.ExitFailed {
		t.Fatal(got.Err)
	}
	all, code := elements(t, got.Out), cli.ExitDone
	for _, e := range all {
		if len(diffs(e)) > 0 {
			code = cli.ExitDiffers
		}
	}
	if got.Code != code {
		t.Fatalf("exit %d, want %d: %s", got.Code, code, got.Err)
	}
	return all
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
func TestGoldenOutput(t *testing.T) {
	for _, comparison := range []string{"PartialComparison", "FullComparison"} {
		for _, format := range []string{"table", "wide", "json", "yaml", "name"} {
			got := call(t, "", "--hub", "testdata/hub.yaml", "--member", "testdata/member.yaml", "--crd", "testdata/crd.yaml",
				"--comparison", comparison, "--manager", "slipway", "-o", format)
			if got.Code != cli.ExitDiffers || got.Err != "" {
				t.Fatalf("exit %d: %s", got.Code, got.Err)
			}
			golden(t, strings.ToLower(strings.TrimSuffix(comparison, "Comparison"))+"."+format, got.Out)
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

func TestExitCodesSayWhetherAnythingDiffers(t *testing.T) {
	same := inputs(t, configMap+"data: {k: v}", configMap+"data: {k: v}")
	other := inputs(t, configMap+"data: {k: v}", configMap+"data: {k: w}")
	gone := inputs(t, configMap, "kind: List\napiVersion: v1\nitems: []\n---\n"+strings.ReplaceAll(configMap, "name: a", "name: c"))
	for name, c := range map[string]struct {
		args []string
		code int
	}{
		"same": {same, cli.ExitDone}, "other": {other, cli.ExitDiffers}, "missing": {gone, cli.ExitDiffers},
		"other ignored": {append(other, "--ignore", "/data/k"), cli.ExitDone},
		"other class":   {append(other, "--ignore", "/data/other", "--ignore", "/metadata"), cli.ExitDiffers},
	} {
		if got := call(t, "", c.args...); got.Code != c.code || got.Err != "" {
			t.Errorf("%s: exit %d, want %d: %s", name, got.Code, c.code, got.Err)
		}
	}
}

func TestUsageErrorsNameTheMistake(t *testing.T) {
	two := inputs(t, configMap, configMap)
	for want, args := range map[string][]string{
		"--hub is not set":                     {"--member", "x"},
		"--member is not set":                  {"--hub", "x"},
		"one file only":                        {"--hub", "-", "--member", "-"},
		"want table, wide, json, yaml or name": append(two, "-o", "xml"),
		"comparison: Unsupported value":        append(two, "--comparison", "none"),
		"unknown flag: --colour":               append(two, "--colour"),
		"--comparison, --ignore or --secret":   append(two, "--ignore", "no/slash"),
		"ignore[0].pointers[0]":                append(two, "--ignore", "/a~2"),
		"secrets[0]":                           append(two, "--secret", "x"),
	} {
		got := call(t, "", args...)
		if got.Code != cli.ExitUsage || got.Out != "" || !strings.Contains(got.Err, want) {
			t.Errorf("%q: exit %d, %q, %q", want, got.Code, got.Out, got.Err)
		}
	}
}

// Without a file the verb compares a placement as before.
func TestAPlacementIsComparedWithoutFiles(t *testing.T) {
	if got := call(t, "", "shop"); got.Code != cli.ExitFailed || !strings.Contains(got.Err, "a placement is compared") {
		t.Errorf("%+v", got)
	}
	if got := call(t, "", "shop", "--hub", "x", "--member", "z"); got.Code != cli.ExitUsage {
		t.Errorf("with files and a placement: %+v", got)
	}
}

func TestAFileThatIsNotThere(t *testing.T) {
	got := call(t, "", "--hub", "testdata/none.yaml", "--member", "testdata/member.yaml")
	if got.Code != cli.ExitFailed || got.Out != "" || !strings.Contains(got.Err, "testdata/none.yaml: no such file or directory\n") {
		t.Errorf("%+v", got)
	}
	if got := call(t, "", "--hub", "testdata", "--member", "testdata/member.yaml"); got.Code != cli.ExitFailed || !strings.Contains(got.Err, "testdata: is a directory") {
		t.Errorf("%+v", got)
	}
}

func TestTheStandardInputIsAFile(t *testing.T) {
	args := inputs(t, configMap+"data: {k: v}", configMap+"data: {k: v}")
	for _, args := range [][]string{{args[0], args[1], "--member", "-"}, {"--hub", "-", args[2], args[3]}} {
		if got := call(t, configMap+"data: {k: w}", args...); got.Code != cli.ExitDiffers || !strings.Contains(got.Out, ".data.k") {
			t.Errorf("%+v", got)
		}
		if got := call(t, "[", args...); got.Code != cli.ExitFailed || !strings.HasPrefix(got.Err, "error: standard input:1: document 1: ") {
			t.Errorf("%+v", got)
		}
	}
}
