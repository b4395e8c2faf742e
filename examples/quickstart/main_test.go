package main

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

	"github.com/slipway-dev/slipway/stages"
)

var update = flag.Bool("update", false, "rewrite the files of expected output in testdata")

// played is what a program did.
type played struct {
	code     int
	out, err string
}

// playWith runs the program in this process, with a clock that goes on when
// there is nothing else to do.
func playWith(t *testing.T, stdin string, args ...string) played {
	t.Helper()
	var out, errOut bytes.Buffer
	args = append([]string{"-wait", "50ms", "-latency", "0"}, args...)
	code := 0
	synctest.Test(t, func(t *testing.T) {
		code = run(t.Context(), args, stdio{strings.NewReader(stdin), &out, &errOut})
	})
	return played{code, out.String(), errOut.String()}
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
				t.Errorf("type %s is not documented in stages/event/event.go", o.Type)
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

// documentedTypes reads the names of the event types from where they are
// documented.
func documentedTypes(t *testing.T) map[string]bool {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "../../stages/event/event.go", nil, 0)
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
	p := playWith(t, "", "-o", "json", "-latency", "5ms")
	p.want(t, exitDone, "")
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
	p.want(t, exitDone, "")
	aside := "(?m)^[^ #]+ (" + strings.ReplaceAll(asides, " ", "|") + ") .*\n"
	text := regexp.MustCompile(aside).ReplaceAllString(p.out, "")
	text = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\.\d{3}`).ReplaceAllString(text, "TIME")
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

func TestAutoPrintsLinesWhereThereIsNoTerminal(t *testing.T) {
	t.Parallel()
	p := playWith(t, "")
	p.want(t, exitDone, "")
	if !strings.HasPrefix(p.out, "# ") || strings.Contains(p.out, "\x1b") {
		t.Errorf("not plain lines:\n%s", p.out)
	}
}

const question = "Approve example-run-canary? [y/N/r(eject)] "

func TestAskTakesOnlyAClearYes(t *testing.T) {
	t.Parallel()
	p := playWith(t, "n\n\nwhat\nY\nyes\n", "-o", "json", "-approve", "ask")
	p.want(t, exitDone, question)
	if n := strings.Count(p.err, question); n != 4 {
		t.Errorf("asked %d times about example-run-canary, want 4:\n%s", n, p.err)
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

func TestRejectingEndsTheRun(t *testing.T) {
	t.Parallel()
	p := playWith(t, "r\n", "-o", "json", "-approve=ask")
	p.want(t, exitFailed, "example-run-canary was rejected by you")
	want := runStory("example-run", "1", "value2")
	want = slices.Concat(snapshotStory, want[:17], []string{"ApprovalRejected example-run canary", "RunFailed example-run"}, want[20:])
	if diff := cmp.Diff(want, story(p.objects(t))); diff != "" {
		t.Errorf("the story (-want +got):\n%s", diff)
	}
}

func TestAskingNothingIsAnError(t *testing.T) {
	t.Parallel()
	p := playWith(t, "n\n", "-o", "json", "-approve=ask")
	p.want(t, exitFailed, "quickstart: approval example-run-canary: "+errNobody.Error()+"\n")
}

func TestWrongArgumentsShowTheUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"-o", "yaml"}, {"-o"}, {"-approve=never"}, {"-wait", "soon"}, {"-wait=-1s"}, {"-latency=-1s"}, {"-colour"}, {"example-run"},
	} {
		p := playWith(t, "", args...)
		p.want(t, exitUsage, "usage: quickstart")
		if p.out != "" {
			t.Errorf("%q printed %q", args, p.out)
		}
	}
	if p := playWith(t, "", "-h"); p.code != exitDone || !strings.Contains(p.out, "-latency") || p.err != "" {
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

func TestInterruptSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"SnapshotTaken":     nothingLeft + "\n",
		"WaitStarted":       "run example-run was left Running in stage staging, 1 of 3 clusters done, waiting for staging (timed wait, until ",
		"ApprovalRequested": "run example-run was left Running in stage canary, 3 of 3 clusters done, waiting for approval example-run-canary; it was kept in memory and is gone\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var errOut bytes.Buffer
			stdin, keep := io.Pipe() // nothing types
			code := run(ctx, []string{"-o=json", "-wait=200ms", "-latency=0", "-approve=ask"}, stdio{stdin, &lineCanceler{text: text, cancel: cancel}, &errOut})
			played{code, "", errOut.String()}.want(t, exitInterrupted, "quickstart: interrupted: "+want)
			keep.Close()
		})
	}
}

// brokenPipe refuses what is written.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestOutputThatCannotBeWrittenIsAnError(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"json", "text"} {
		var errOut bytes.Buffer
		code := 0
		synctest.Test(t, func(t *testing.T) {
			code = run(t.Context(), []string{"-o", format}, stdio{strings.NewReader(""), brokenPipe{}, &errOut})
		})
		played{code, "", errOut.String()}.want(t, exitFailed, "quickstart: "+io.ErrClosedPipe.Error()+"\n")
	}
}
