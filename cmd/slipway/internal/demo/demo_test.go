package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/watch"
)

var update = flag.Bool("update", false, "rewrite the files of expected output in testdata")

// played is the result of a program.
type played struct {
	code     int
	out, err string
}

// playWith runs the program in this process, with a clock that advances when the program is idle.
func playWith(t *testing.T, stdin string, args ...string) played {
	t.Helper()
	var out, errOut bytes.Buffer
	args = append([]string{"--wait", "50ms", "--latency", "0"}, args...)
	code := 0
	synctest.Test(t, func(t *testing.T) {
		code = run(t.Context(), args, genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &out, ErrOut: &errOut})
	})
	return played{code, out.String(), errOut.String()}
}

// run is the command with this verb.
func run(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	o := &cli.Options{IOStreams: streams, Name: "slipway"}
	root := &cobra.Command{Use: "slipway", SilenceUsage: true, SilenceErrors: true}
	root.PersistentFlags().StringVarP(&o.Output, "output", "o", cli.Table, "as of the command")
	root.PersistentFlags().DurationVar(&o.Timeout, "timeout", 0, "as of the command")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.UsageError{Err: err} })
	root.SetOut(streams.Out)
	root.AddCommand(New(o))
	root.SetArgs(append([]string{"demo"}, args...))
	return o.ExitCode(root.ExecuteContext(ctx))
}

func (p played) want(t *testing.T, code int, stderr string) {
	t.Helper()
	if p.code != code || !strings.Contains(p.err, stderr) || stderr == "" && p.err != "" {
		t.Errorf("exit code %d, stderr %q; want %d and %q", p.code, p.err, code, stderr)
	}
}

// told is a line of -o json.
type told struct {
	stages.Event
	Data map[string]string
}

// objects parses the output of -o json. Every line must be exactly an event of
// a documented type, or a Member.
func (p played) objects(t *testing.T) []told {
	t.Helper()
	known := documentedTypes(t)
	var all []told
	for text := range strings.Lines(p.out) {
		var o told
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		var again []byte
		if o.Type == "Member" {
			again, _ = json.Marshal(Member{Time: o.Time, Type: "Member", Run: o.Run, Cluster: o.Cluster, Data: o.Data})
		} else {
			again, _ = json.Marshal(o.Event)
			if !known[string(o.Type)] {
				t.Errorf("type %s is not documented in stages/event.go", o.Type)
			}
		}
		if diff := cmp.Diff(strings.TrimSpace(text), string(again)); diff != "" {
			t.Errorf("not the engine's event (-printed +event):\n%s", diff)
		}
		if o.Time.IsZero() {
			t.Errorf("no time: %s", text)
		}
		all = append(all, o)
	}
	return all
}

// documentedTypes reads the names of the event types from their documentation.
func documentedTypes(t *testing.T) map[string]bool {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "../../../../stages/event.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			names[v.Names[0].Name] = true
		}
		return true
	})
	return names
}

// asides are events that only say how the engine goes about it.
const asides = "RunTaken SelectionChanged RunStopping"

// story are the objects as words, without the asides.
func story(all []told) []string {
	var out []string
	for _, o := range all {
		if strings.Contains(asides, string(o.Type)) {
			continue
		}
		words := []string{string(o.Type), o.Run, o.Stage, o.Cluster}
		if o.Index != nil {
			words = append(words, "index", string('0'+rune(*o.Index)))
		}
		if o.Data != nil {
			words = append(words, o.Data["key"])
		}
		out = append(out, strings.Join(slices.DeleteFunc(words, func(s string) bool { return s == "" }), " "))
	}
	return out
}

func runStory(run, index, value string) []string {
	text := `RunCreated RUN index ` + index + `
RunStarted RUN index ` + index + `
StageStarted RUN staging
ClusterStarted RUN staging member2
ClusterApplied RUN staging member2
ClusterCompleted RUN staging member2
WaitStarted RUN staging
WaitEnded RUN staging
StageCompleted RUN staging
StageStarted RUN canary
ClusterStarted RUN canary member3
ClusterApplied RUN canary member3
ClusterCompleted RUN canary member3
ClusterStarted RUN canary member1
ClusterApplied RUN canary member1
ClusterCompleted RUN canary member1
ApprovalRequested RUN canary
ApprovalAccepted RUN canary
StageCompleted RUN canary
RunCompleted RUN
Member RUN member1 ` + value + `
Member RUN member2 ` + value + `
Member RUN member3 ` + value
	return strings.Split(strings.ReplaceAll(text, "RUN", run), "\n")
}

var (
	snapshotStory = []string{"SnapshotTaken index 0", "SnapshotTaken index 1"}
	wholeStory    = slices.Concat(snapshotStory, runStory("example-run", "1", "value2"), runStory("example-run-2", "0", "value1"))
)

func TestJSONTellsTheTutorial(t *testing.T) {
	t.Parallel()
	p := playWith(t, "", "-o", "json", "--latency", "5ms")
	p.want(t, cli.ExitDone, "")
	all := p.objects(t)
	if diff := cmp.Diff(wholeStory, story(all)); diff != "" {
		t.Errorf("the story (-want +got):\n%s", diff)
	}
	var began time.Time
	for _, o := range all {
		d := o.Time.Sub(began)
		switch o.Type {
		case stages.WaitStarted, stages.ClusterStarted:
			began = o.Time
		case stages.WaitEnded:
			if d < 50*time.Millisecond {
				t.Errorf("%s: the wait lasted %v, not 50ms", o.Run, d)
			}
		case stages.ClusterApplied:
			if d < 5*time.Millisecond {
				t.Errorf("%s was updated in %v, with a latency of 5ms", o.Cluster, d)
			}
		}
	}
}

func TestTextPrintsALineForEachEvent(t *testing.T) {
	t.Parallel()
	p := playWith(t, "", "-o", "text")
	p.want(t, cli.ExitDone, "")
	aside := "(?m)^[^ #]+ (" + strings.ReplaceAll(asides, " ", "|") + ") .*\n"
	text := regexp.MustCompile(aside).ReplaceAllString(p.out, "")
	text = regexp.MustCompile(`(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`).ReplaceAllString(text, "TIME")
	text = regexp.MustCompile(`digest=[0-9a-f]{12}`).ReplaceAllString(text, "digest=DIGEST")
	golden(t, "text.txt", text)
}

// golden compares with a file of expected output.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func TestAutoPrintsLinesWithoutATerminal(t *testing.T) {
	t.Parallel()
	p := playWith(t, "")
	p.want(t, cli.ExitDone, "")
	if !strings.HasPrefix(p.out, "# ") || strings.Contains(p.out, "\x1b") {
		t.Errorf("not plain lines:\n%s", p.out)
	}
}

const question = "Approve example-run-canary?\n  run example-run, plan "

func TestAskTakesOnlyAClearYes(t *testing.T) {
	t.Parallel()
	p := playWith(t, "\nwhat\nY\nyes\n", "-o", "json", "--approve", "ask")
	p.want(t, cli.ExitDone, question)
	if n, again := strings.Count(p.err, question), strings.Count(p.err, "y, r or n: "); n != 1 || again != 2 {
		t.Errorf("asked %d times about example-run-canary, and %d times for a clear answer:\n%s", n, again, p.err)
	}
	if want := "\n  clusters updated: member3, member1\n  nothing is left then: the run completes\n"; !strings.Contains(p.err, want) {
		t.Errorf("the question lacks what is approved:\n%s", p.err)
	}
	all := p.objects(t)
	if diff := cmp.Diff(wholeStory, story(all)); diff != "" {
		t.Errorf("the story (-want +got):\n%s", diff)
	}
	for _, o := range all {
		if o.Type == stages.ApprovalAccepted && o.By != "you" {
			t.Errorf("approved by %q", o.By)
		}
	}
}

func TestNoLeavesTheRequestOpen(t *testing.T) {
	t.Parallel()
	p := playWith(t, "n\n", "-o", "json", "--approve", "ask")
	p.want(t, cli.ExitFailed, "error: approval example-run-canary: "+watch.ErrLeftOpen.Error()+"\n")
	if n := strings.Count(p.err, "Approve "); n != 1 || strings.Contains(p.out, "ApprovalAccepted") {
		t.Errorf("asked %d times:\n%s", n, p.err)
	}
}

func TestRejectingEndsTheRun(t *testing.T) {
	t.Parallel()
	p := playWith(t, "r\n", "-o", "json", "--approve=ask")
	p.want(t, cli.ExitUnsuccessful, "example-run-canary was rejected by you")
	want := runStory("example-run", "1", "value2")
	want = slices.Concat(snapshotStory, want[:17], []string{"ApprovalRejected example-run canary", "RunFailed example-run"}, want[20:])
	if diff := cmp.Diff(want, story(p.objects(t))); diff != "" {
		t.Errorf("the story (-want +got):\n%s", diff)
	}
}

// The members are shown after the rollback, and the exit code is the one of the failed run.
func TestARollbackEndsTheDemo(t *testing.T) {
	t.Parallel()
	strategy, err := os.ReadFile("tutorial/strategy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := filesIn(t, map[string]string{"strategy.yaml": strings.Replace(string(strategy), "spec:\n", "spec:\n  rollback: {}\n", 1)})
	for _, output := range []string{"json", "text"} {
		p := playWith(t, "r\n", "-o", output, "--approve=ask", "--dir", dir)
		p.want(t, cli.ExitUnsuccessful, "error: run example-run failed: request example-run-canary was rejected by you; it is rolled back by run example-run-rollback\n")
		if output == "text" {
			if want := "example-run-rollback/member3"; !strings.Contains(p.out, want) {
				t.Errorf("no line of %s:\n%s", want, p.out)
			}
			continue
		}
		all := story(p.objects(t))
		want := []string{"RunCompleted example-run-rollback", "Member example-run-rollback member1", "Member example-run-rollback member2", "Member example-run-rollback member3"}
		if diff := cmp.Diff(want, all[max(0, len(all)-len(want)):]); diff != "" {
			t.Errorf("the end of the story (-want +got):\n%s", diff)
		}
	}
}

func TestAskingNothingIsAnError(t *testing.T) {
	t.Parallel()
	p := playWith(t, "what\n", "-o", "json", "--approve=ask")
	p.want(t, cli.ExitFailed, "error: approval example-run-canary: "+watch.ErrNoInput.Error()+"\n")
}

func TestWrongArgumentsAreUsageErrors(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"-o yaml: want auto, text or json":              {"-o", "yaml"},
		"-o table: want auto, text or json":             {"-o", "table"},
		"--data is empty: want a directory":             {"--data="},
		"--approve never: want auto or ask":             {"--approve=never"},
		"--wait -1s, --latency 20ms: must not be":       {"--wait=-1s", "--latency=20ms"},
		"--wait 50ms, --latency -1s: must not be":       {"--latency=-1s"},
		"invalid argument \"soon\" for \"--wait\"":      {"--wait", "soon"},
		"flag needs an argument: 'o'":                   {"-o"},
		"unknown flag: --colour":                        {"--colour"},
		"unknown command \"example-run\" for \"slipway": {"example-run"},
	} {
		p := playWith(t, "", args...)
		p.want(t, cli.ExitUsage, "error: "+want)
		if p.out != "" {
			t.Errorf("%q printed %q", args, p.out)
		}
	}
	if p := playWith(t, "", "-h"); p.code != cli.ExitDone || !strings.Contains(p.out, "--latency") || p.err != "" {
		t.Errorf("-h: %+v", p)
	}
}

// lineCanceler cancels when a line that contains a text is printed.
type lineCanceler struct {
	text   string
	cancel context.CancelFunc
	once   sync.Once
}

func (c *lineCanceler) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(c.text)) {
		c.once.Do(c.cancel)
	}
	return len(p), nil
}

func TestInterruptReportsTheStateOfTheRun(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"SnapshotTaken":     "no run was created; the demo is in memory only, and ends: --data DIRECTORY keeps it\n",
		"WaitStarted":       "run example-run is Running in stage staging, 1 of 3 clusters done, waits at staging: timed wait, until ",
		"ApprovalRequested": "run example-run is Running in stage canary, 3 of 3 clusters done, waits for approval example-run-canary: 1 more approval needed; the demo is in memory only, and ends: --data DIRECTORY keeps it\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // a line that is not printed ends the test, too
			defer cancel()
			var errOut bytes.Buffer
			stdin, keep := io.Pipe() // nothing types
			code := run(ctx, []string{"-o=json", "--wait=200ms", "--latency=0", "--approve=ask"}, genericiooptions.IOStreams{In: stdin, Out: &lineCanceler{text: text, cancel: cancel}, ErrOut: &errOut})
			played{code, "", errOut.String()}.want(t, cli.ExitInterrupted, "interrupted: "+want)
			keep.Close()
		})
	}
}

// brokenPipe refuses all writes.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestOutputThatCannotBeWrittenIsAnError(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"json", "text"} {
		var errOut bytes.Buffer
		code := 0
		synctest.Test(t, func(t *testing.T) {
			code = run(t.Context(), []string{"-o", format}, genericiooptions.IOStreams{In: strings.NewReader(""), Out: brokenPipe{}, ErrOut: &errOut})
		})
		played{code, "", errOut.String()}.want(t, cli.ExitFailed, "error: "+io.ErrClosedPipe.Error()+"\n")
	}
}
