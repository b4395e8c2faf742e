package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

var update = flag.Bool("update", false, "rewrite the texts in testdata/texts")

// wantText compares a text with its file in testdata/texts. The files are made to be read from top
// to bottom: they have all help, and an error of each kind, as users see them.
func wantText(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "texts", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), go test -run %s -update rewrites it:\n%s", file, t.Name(), diff)
	}
}

// helpOf returns the help of a command.
func helpOf(t *testing.T, cmd *cobra.Command) string {
	t.Helper()
	var out bytes.Buffer
	cmd.SetOut(&out)
	if err := cmd.Help(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// No line of help is wider than 80 columns. The help of a verb has at most ten lines about the
// global flags, and names the command as it was called.
func TestTheWidthOfHelp(t *testing.T) {
	for _, name := range []string{"slipway", "kubectl slipway", pluginAMC} {
		var visit func(cmd *cobra.Command)
		visit = func(cmd *cobra.Command) {
			text := helpOf(t, cmd)
			for line := range strings.Lines(text) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
					t.Errorf("%s --help has a line of %d columns: %s", cmd.CommandPath(), n, line)
				}
				if strings.Contains(line, "kubectl kubectl") || name == "kubectl slipway" && strings.HasPrefix(line, "  slipway ") {
					t.Errorf("%s --help: the command was called as %s: %s", cmd.CommandPath(), name, line)
				}
			}
			if _, global, has := strings.Cut(text, "\nGlobal Flags"); has && strings.Count(global, "\n") > 10 {
				t.Errorf("%s --help: the global flags:%s", cmd.CommandPath(), global)
			}
			for _, sub := range cmd.Commands() {
				visit(sub)
			}
		}
		visit(newRoot(genericiooptions.NewTestIOStreamsDiscard(), nil, name))
	}
}

func TestTheTextsOfHelp(t *testing.T) {
	root := newRoot(genericiooptions.NewTestIOStreamsDiscard(), nil, "slipway")
	var all strings.Builder
	var describe func(cmd *cobra.Command)
	describe = func(cmd *cobra.Command) {
		text := helpOf(t, cmd)
		if len(cmd.Commands()) == 0 { // the flags of the root are the same everywhere
			text, _, _ = strings.Cut(text, "\nGlobal Flags")
		}
		fmt.Fprintf(&all, "%s\n%s\n", text, strings.Repeat("-", 80))
		for _, sub := range cmd.Commands() {
			describe(sub)
		}
	}
	describe(root)
	wantText(t, "help.txt", all.String())
}

// wrong are command lines that fail on the store of newEnv, where shop-1 has completed and shop-2
// waits for an approval.
const wrong = `
get
get nonsense
get runs --nonsense
get runs --placment shop
aply -f web.yaml
creat run shop-3
delete plcement shop
get runs --timeout 5
get runs -o text
get runs -n
get run shop-1 other
get snapshots none
get snapshots --run shop-1
get placements --placement shop
get clusters --run shop-1 --placement shop
get runs --timeout -1s
describe run other
history other
explain
explain other
explain shop-1 eu-9
preview shop
preview none --strategy testdata/texts/strategy.yaml
preview shop --strategy none.yaml
preview shop --strategy testdata/texts/strategy.yaml --index 9
preview-selection shop --policy none.yaml
diff shop --strategy testdata/texts/strategy.yaml --cluster none
drift
drift none
drift shop --index 9
drift --hub a
create nonsense
create run shop-3
create run shop-3 --placement shop
create run shop-1 --placement shop --strategy testdata/texts/strategy.yaml
create run Shop --placement shop --strategy testdata/texts/strategy.yaml
create run shop-3 --placement none --strategy testdata/texts/strategy.yaml
create run shop-3 --placement shop --strategy testdata/texts/canary.yaml
catch-up shop-1
catch-up shop-2 --name shop-3
start shop-1
start other
stop shop-1
abort shop-1
abort shop-2
skip shop-2
skip shop-2 --what everything/x
retry shop-2 --only some
retry shop-1
rollback shop-1 --yes
rollback shop-2 --name shop-1 --yes
rollback other
approve shop-1
approve shop-2 none
approve shop-2-after-canary
reject other
wait shop-2
watch other
set cap all many
set cap all -1
set nonsense
delete run shop-2
delete run other
delete placement other
delete placement shop --policy nonsense --yes
delete cap other
delete placement shop
delete -f testdata/texts/declared.yaml
delete -f testdata/texts/declared.yaml --force
apply -f testdata/texts/typo.yaml
forecast other
timeline other
cordon eu-1
drain eu-1
serve --listen localhost:0
serve --tls-cert x
serve --timeout 1s
serve --demo
get runs --server http://127.0.0.1:1
get runs --as-group sre
hub
hub install
hub uninstall --server http://127.0.0.1:1
hub install nonsense
migrate plan
store check
store nonsense
demo --approve never
demo --wait -1s
demo --wait 5
demo --aprove ask
demo --dir none
demo --data tutorial extra
simulate none.yaml
updaterun get
workflow get
`

func TestTheTextsOfErrors(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	v := newEnv(t)
	var all bytes.Buffer
	for line := range strings.Lines(strings.TrimPrefix(wrong, "\n")) {
		args := strings.Fields(line)
		do := v.on
		if slices.Contains([]string{"hub", "migrate", "store", "demo", "simulate"}, args[0]) {
			do = v.run // without a store
		}
		code, out, errOut := do(args...)
		text := strings.ReplaceAll(errOut, v.file, "state.db")
		fmt.Fprintf(&all, "$ slipway %s%s[%d]\n\n", line, text, code)
		if code == 0 {
			t.Errorf("slipway %s: exit code 0:\n%s", line, out)
		}
	}
	code, _, errOut := v.run("get", "runs")
	fmt.Fprintf(&all, "$ slipway get runs    # without --store\n%s[%d]\n", errOut, code)
	wantText(t, "errors.txt", all.String())
}
