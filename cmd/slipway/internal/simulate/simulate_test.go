package simulate

import (
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/clitest"
	"github.com/slipway-dev/slipway/stages"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata")

// call runs the verb; in is its standard input.
func call(t *testing.T, in string, args ...string) clitest.Result {
	t.Helper()
	return clitest.Call(t, verbs, in, append([]string{"simulate"}, args...)...)
}

func verbs(o *cli.Options) []*cobra.Command { return []*cobra.Command{New(o)} }

// scenarios are the files that have expected output, by their names.
func scenarios() []string {
	return []string{"staged", "clusterupdate", "workflow", "windows", "groups", "rollback"}
}

func TestGoldenScenarios(t *testing.T) {
	for _, name := range scenarios() {
		for _, format := range []string{"text", "json"} {
			t.Run(name+"."+format, func(t *testing.T) {
				got := call(t, "", "-o", format, "testdata/"+name+".yaml")
				if got.Code != cli.ExitDone {
					t.Fatalf("exit %d: %s", got.Code, got.Err)
				}
				golden(t, name+"."+format, got.Out)
			})
		}
	}
}

// The diagram contains the run and its rollback.
func TestThePictureOfAScenario(t *testing.T) {
	got := call(t, "", "-o", "timeline", "testdata/rollback.yaml")
	if got.Code != cli.ExitDone {
		t.Fatalf("exit %d: %s", got.Code, got.Err)
	}
	golden(t, "rollback.timeline", got.Out)
	got = call(t, "", "testdata/rollback.yaml", "-o", "svg")
	for _, want := range []string{"<svg ", "prod", "c5", "rollback", "</svg>"} {
		if got.Code != cli.ExitDone || !strings.Contains(got.Out, want) {
			t.Errorf("exit %d, no %q in the SVG of %d bytes: %s", got.Code, want, len(got.Out), got.Err)
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

// Every line is an object whose first keys are the documented ones, in their order; the last line
// is the end.
func TestEveryLineOfJSONBeginsWithTheSameKeys(t *testing.T) {
	for _, name := range append(scenarios(), "thousand") {
		got := call(t, "", "testdata/"+name+".yaml", "-o", "json")
		lines := slices.Collect(strings.Lines(got.Out))
		last := len(lines) - 1
		for i, l := range lines {
			want := []string{"at", "type", "stage", "group", "cluster"}
			if i == last {
				want = []string{"at", "type", "state", "stages", "clusters"}
			}
			keys := keysOf(t, l)
			if diff := cmp.Diff(want, keys[:min(len(keys), len(want))]); diff != "" {
				t.Fatalf("%s, line %d (-want +got):\n%s\n%s", name, i+1, diff, l)
			}
		}
		if !strings.Contains(lines[last], `"type":"End"`) || strings.Count(got.Out, `"type":"End"`) != 1 {
			t.Errorf("%s: the last line is %s", name, lines[last])
		}
	}
}

// keysOf returns the keys of an object in their order.
func keysOf(t *testing.T, line string) (keys []string) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(line))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key.(string))
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			t.Fatal(err)
		}
	}
	return keys
}

// jsonLine contains all fields of a line.
type jsonLine struct {
	At, Type, Stage, Cluster string
	State                    stages.State
	Stages, Clusters         map[string]stages.State
	Reason                   string
	Peak                     struct {
		Run    int
		Stages map[string]int
	}
}

func linesOf(t *testing.T, out string) (all []jsonLine) {
	t.Helper()
	for d := json.NewDecoder(strings.NewReader(out)); ; {
		var l jsonLine
		err := d.Decode(&l)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
}

func TestAThousandGeneratedClusters(t *testing.T) {
	got := call(t, "", "-o", "json", "testdata/thousand.yaml")
	all := linesOf(t, got.Out)
	end := all[len(all)-1]
	by := map[stages.State]int{}
	for _, s := range end.Clusters {
		by[s]++
	}
	if diff := cmp.Diff(map[stages.State]int{stages.Completed: 460, stages.Running: 45, stages.NotStarted: 495}, by); diff != "" {
		t.Errorf("clusters (-want +got):\n%s", diff)
	}
	if end.At != "15h0m0s" || end.Reason != "Cut" || end.Stages["first"] != stages.Completed || end.Stages["second"] != stages.Running {
		t.Errorf("end %+v", end)
	}
	if diff := cmp.Diff(map[string]int{"first": 10, "second": 45}, end.Peak.Stages); end.Peak.Run != 45 || diff != "" {
		t.Errorf("peak %d (-want +got):\n%s", end.Peak.Run, diff)
	}
	text := call(t, "", "testdata/thousand.yaml")
	if want := "where the simulation ends. Clusters: 1000, Completed: 460, in flight at most: 45."; !strings.Contains(text.Out, want) {
		t.Errorf("no %q in a text of %d bytes", want, len(text.Out))
	}
}

// Times never go back, and each is a duration.
func TestEventsAreInTheOrderOfTime(t *testing.T) {
	for _, name := range scenarios() {
		before := time.Duration(0)
		for _, l := range linesOf(t, call(t, "", "-o", "json", "testdata/"+name+".yaml").Out) {
			at, err := time.ParseDuration(l.At)
			if err != nil || at < before {
				t.Errorf("%s: %s at %q comes after %s: %v", name, l.Type, l.At, before, err)
			}
			before = at
		}
	}
}

func TestSimulationIsDeterministic(t *testing.T) {
	first := call(t, "", "-o", "json", "testdata/staged.yaml")
	for range 5 {
		if again := call(t, "", "-o", "json", "testdata/staged.yaml"); again != first {
			t.Fatal("it brought something else")
		}
	}
}

func TestAScenarioMayComeFromTheStandardInput(t *testing.T) {
	got := call(t, "profile: ClusterUpdate\ncount: {prefix: c, n: 2}\ntake: 1s\n", "-")
	if got.Code != cli.ExitDone || got.Err != "" || !strings.Contains(got.Out, "The run would be Completed at 2s.") {
		t.Errorf("exit %d, %s%s", got.Code, got.Out, got.Err)
	}
}

// The text contains the reasons of an active run's wait, and the clusters that a rollback does
// not change, or the reason why there is no rollback.
func TestTextNamesWaitsAndUnchangedClusters(t *testing.T) {
	const left = "profile: Workflow\nstrategy: {stages: [{name: prod, labelSelector: {}}]}\nrollback: {causes: [BudgetExceeded], newClusters: Leave}\nattempts: 1\ntake: 4m\n" +
		"faults: [{cluster: b, fail: always}]\nclusters: [{name: a, new: true}, "
	for text, want := range map[string][]string{
		"clusters: [{name: a}]\nstrategy: {stages: [{name: x, labelSelector: {}, beforeStageTasks: [{type: Approval}]}]}\n": {
			"The run would be Running at 0s, and nothing can happen any more.", "Waits for:", "Decision    run-before-x   -       1 more approval needed", "Before Approval   Pending",
		},
		left + "{name: b, had: v3}]\n":   {"\nb         prod    -       v3\n", "clusters that keep their revision: 1, the cluster had nothing before", "run-rollback would be Completed at 12m0s."},
		left + "{name: b, new: true}]\n": {"It is not rolled back: no cluster changes: 2 because"},
	} {
		got := call(t, text, "-")
		for _, line := range want {
			if got.Code != cli.ExitDone || !strings.Contains(got.Out, line) {
				t.Errorf("exit %d, no %q in\n%s%s", got.Code, line, got.Out, got.Err)
			}
		}
	}
}

func TestAScenarioWithErrorsGetsEveryErrorAndNoOutput(t *testing.T) {
	got := call(t, "profile: Stages\nclusters: [{name: a}, {name: a}]\ntake: x\n", "-o", "json", "-")
	want := []string{
		"error: standard input:1: profile: must be Staged or",
		"standard input:2: clusters[1].name: cluster a is there already, on line 2",
		"standard input:3: take: must be a duration",
	}
	lines := strings.Split(strings.TrimSuffix(got.Err, "\n"), "\n")
	if got.Code != cli.ExitFailed || got.Out != "" || len(lines) != len(want) {
		t.Fatalf("exit %d, output %q, errors\n%s", got.Code, got.Out, got.Err)
	}
	for i := range want {
		if !strings.HasPrefix(lines[i], want[i]) {
			t.Errorf("error %d is %s", i, lines[i])
		}
	}
}

func TestWarningsAreNotInTheOutput(t *testing.T) {
	const text = "clusters: [{name: a}]\nstrategy: {stages: [{name: x, labelSelector: {}}, {name: z}]}\n"
	got := call(t, text, "-o", "json", "-")
	if got.Code != cli.ExitDone || got.Err != "warning: stage z has no clusters\n" || strings.Contains(got.Out, "warning") {
		t.Errorf("exit %d, errors %q, output\n%s", got.Code, got.Err, got.Out)
	}
}

func TestWrongFlags(t *testing.T) {
	for _, args := range [][]string{{}, {"a", "b"}, {"-o", "xml", "a"}, {"-x", "a"}, {"a", "-o"}} {
		if got := call(t, "", args...); got.Code != cli.ExitUsage || got.Out != "" || got.Err == "" {
			t.Errorf("%q: exit %d, output %q, errors %q", args, got.Code, got.Out, got.Err)
		}
	}
	if got := call(t, "", "-h"); got.Code != cli.ExitDone || !strings.Contains(got.Out, "slipway simulate FILE") || got.Err != "" {
		t.Errorf("-h: exit %d, output %q, errors %q", got.Code, got.Out, got.Err)
	}
	if got := call(t, "", "testdata/nothing.yaml"); got.Code != cli.ExitFailed || !strings.Contains(got.Err, "nothing.yaml") {
		t.Errorf("a file that is not there: exit %d, errors %q", got.Code, got.Err)
	}
}

// closed is a writer that takes some bytes and no more.
type closed struct{ room int }

func (c *closed) Write(b []byte) (int, error) {
	if c.room -= len(b); c.room < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(b), nil
}

func TestOutputThatCannotBeWrittenIsAnError(t *testing.T) {
	for _, format := range []string{"text", "json", "timeline", "svg"} {
		for _, room := range []int{0, 100} {
			code, errOut := clitest.To(t, verbs, &closed{room}, "", "simulate", "-o", format, "testdata/thousand.yaml")
			if code != cli.ExitFailed || !strings.Contains(errOut, io.ErrClosedPipe.Error()) {
				t.Errorf("%s with room for %d bytes: exit %d, %s", format, room, code, errOut)
			}
		}
	}
}
