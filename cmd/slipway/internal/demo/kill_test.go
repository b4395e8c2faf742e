//go:build unix

package demo

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/watch"
)

// longPlay is the tutorial on one directory, over all the processes it takes.
type longPlay struct {
	args  []string
	types string // the typed text; empty for none
	kills int
	// lines counts the printed lines of each event; members contains each line about members once.
	lines   map[string]int
	members map[string]bool
}

func newLongPlay(t *testing.T, args ...string) *longPlay {
	t.Helper()
	return &longPlay{
		args:  append([]string{"--data", filepath.Join(t.TempDir(), "data"), "-o", "json", "--wait", "50ms", "--latency", "0"}, args...),
		lines: map[string]int{}, members: map[string]bool{},
	}
}

func (l *longPlay) dir() string { return l.args[1] }

// signalAt says when a process gets a signal: some time after it printed the nth line, or after
// its start if n is 0.
type signalAt struct {
	signal syscall.Signal
	line   int
	text   string // a text in the line, instead of its number
	after  time.Duration
}

var undisturbed = signalAt{line: -1}

// process starts the program again and returns its result; its exit code is -1 if it was killed.
func (l *longPlay) process(t *testing.T, at signalAt) played {
	t.Helper()
	cmd := program(t, l.args...)
	if stdin, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	} else if _, err := io.WriteString(stdin, l.types); err != nil {
		t.Fatal(err)
	} // it is closed by Wait: nothing more is typed
	stdout, err := cmd.StdoutPipe()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	out := at.send(cmd, stdout)
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	p := played{cmd.ProcessState.ExitCode(), out, stderr.String()}
	l.take(t, p)
	return p
}

// send reads the output of a process, and sends it the signal.
func (at signalAt) send(cmd *exec.Cmd, stdout io.Reader) string {
	var out strings.Builder
	signal := func() {
		time.AfterFunc(at.after, func() { _ = cmd.Process.Signal(at.signal) })
	}
	if at.line == 0 && at.text == "" {
		signal()
	}
	lines := bufio.NewScanner(stdout)
	for n := 1; lines.Scan(); n++ {
		out.WriteString(lines.Text() + "\n")
		if at.text == "" && n == at.line || at.text != "" && strings.Contains(lines.Text(), at.text) {
			signal()
		}
	}
	return out.String()
}

// take records the output of a process.
func (l *longPlay) take(t *testing.T, p played) {
	t.Helper()
	if p.code == -1 {
		l.kills++
	}
	for _, o := range p.objects(t) {
		if o.Type == "Member" {
			l.members[fmt.Sprint(o.Run, " ", o.Cluster, " ", o.Data["key"])] = true
			continue
		}
		b, err := json.Marshal(o.Event)
		if err != nil {
			t.Fatal(err)
		}
		l.lines[string(b)]++
	}
}

// ending is the final state of a play, without the parts that differ from play to play.
type ending struct {
	Runs, Snapshots, Members, Story []string
}

// ending reads the files, and compares the output with the journal.
func (l *longPlay) ending(t *testing.T) ending {
	t.Helper()
	docs := tutorialDocuments(t)
	store, err := openStore(t.Context(), l.dir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	tut, err := newTutorial(t.Context(), docs, store, false, nil, &target.Measures{})
	if err != nil {
		t.Fatal(err)
	}
	events := journalOf(t, tut.engine)
	l.checkPrinted(t, events)
	checkApprovals(t, tut.engine, events)
	return ending{runsOf(t, tut), snapshotsOf(t, tut), membersOf(t, tut), slices.DeleteFunc(story(events), isDrift)}
}

// isDrift reports whether the watch between runs emitted an event. The watch may compare a cluster
// after a killed process wrote to it and before the next process records that.
func isDrift(words string) bool { return strings.HasPrefix(words, "Drift") }

// journalOf returns all events, and checks that the journals begin with their
// first event and have no gaps.
func journalOf(t *testing.T, e *fleet.Engine) []told {
	t.Helper()
	f, err := e.Follow("")
	if err != nil {
		t.Fatal(err)
	}
	var all []told
	for ev, err := range f.Past(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, told{Event: ev})
	}
	var cursor struct {
		R map[string]int `json:"r"`
	}
	b, err := base64.RawURLEncoding.DecodeString(f.Cursor())
	if err == nil {
		err = json.Unmarshal(b, &cursor)
	}
	counted := 0
	for _, n := range cursor.R {
		counted += n
	}
	if err != nil || counted != len(all) {
		t.Errorf("the journals tell %d events and count %d (%v)", len(all), counted, err)
	}
	return all
}

// checkPrinted compares the output with the journal: every event is printed at least once, no
// other event is printed, and repeated lines are at most one for each killed process.
func (l *longPlay) checkPrinted(t *testing.T, events []told) {
	t.Helper()
	lines, again := map[string]bool{}, 0
	for _, ev := range events {
		b, err := json.Marshal(ev.Event)
		if err != nil {
			t.Fatal(err)
		}
		lines[string(b)] = true
		if l.lines[string(b)] == 0 {
			t.Errorf("was never printed: %s", b)
		}
	}
	for line, n := range l.lines {
		if !lines[line] {
			t.Errorf("is in no journal: %s", line)
		}
		again += n - 1
	}
	if again > l.kills {
		t.Errorf("%d events were printed again after %d kills", again, l.kills)
	}
}

// checkApprovals wants each run approved once, for its plan.
func checkApprovals(t *testing.T, e *fleet.Engine, events []told) {
	t.Helper()
	for _, run := range []string{"example-run", "example-run-2"} {
		s, err := e.Run(run).Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []stages.Event
		for _, ev := range events {
			if ev.Run == run && strings.HasPrefix(string(ev.Type), "Approval") && ev.Type != stages.ApprovalRequested {
				if ev.Time.Before(s.Run.Started.Time()) {
					t.Errorf("approved at %v, before the run", ev.Time)
				}
				ev.Time = time.Time{}
				got = append(got, ev.Event)
			}
		}
		want := []stages.Event{{
			Type: stages.ApprovalAccepted, Placement: "example-placement", Run: run, Stage: "canary",
			Request: run + "-canary", By: "demo", Message: "lgtm", Digest: s.Plan.Digest, Attempt: 1,
		}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the approvals of %s (-want +got):\n%s", run, diff)
		}
	}
}

func runsOf(t *testing.T, tut *tutorial) (out []string) {
	t.Helper()
	names, err := tut.engine.Placement("example-placement").RunNames(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		s, err := tut.engine.Run(name).Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s of snapshot %d: %s, attempt %d", name, s.Plan.Index, watch.Summary(watch.Model{Status: s}), s.Run.Attempt))
	}
	return out
}

func snapshotsOf(t *testing.T, tut *tutorial) (out []string) {
	t.Helper()
	view, err := tut.engine.Placement("example-placement").View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range view.Snapshots() {
		out = append(out, fmt.Sprintf("%d %s", s.Index, s.Digest))
	}
	return out
}

// membersOf returns the content of the members. The generation counts the changes of the
// ConfigMap.
func membersOf(t *testing.T, tut *tutorial) (out []string) {
	t.Helper()
	for _, c := range tut.docs.Clusters {
		obj, err := tut.members.Cluster(c.Name).Get(snapshot.IDOf(tut.config))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s %v generation %d", c.Name, obj.Object["data"], obj.GetGeneration()))
	}
	return out
}

// TestAKillAtAnyMomentChangesNothing plays the tutorial in processes that are
// killed at random moments, until one plays it to its end.
func TestAKillAtAnyMomentChangesNothing(t *testing.T) {
	t.Parallel()
	rounds, more, least, most := 25, 5, int64(50), 3 // most limits the kills of a round
	if os.Getenv("SLIPWAY_SOAK") == "1" {
		rounds, more, least, most = 100, 100, 10_000, 12
	}
	want := map[string]ending{}
	lasts := time.Duration(0)
	ways := map[string][]string{"": nil, "held": {"--dir", filesIn(t, map[string]string{"run.yaml": held(t, "run.yaml"), "run-2.yaml": held(t, "run-2.yaml")})}}
	for name, args := range ways {
		l, began := newLongPlay(t, args...), time.Now()
		l.process(t, undisturbed).want(t, cli.ExitDone, "")
		lasts = max(lasts, time.Since(began))
		want[name] = l.ending(t)
	}
	if diff := cmp.Diff(slices.DeleteFunc(slices.Clone(wholeStory), isMember), want[""].Story); diff != "" {
		t.Errorf("no process was killed, and the story (-want +got):\n%s", diff)
	}
	var kills atomic.Int64
	for batch := 0; kills.Load() < least && !t.Failed(); batch++ {
		t.Run(fmt.Sprint(batch), func(t *testing.T) {
			for round := range rounds {
				name := []string{"", "", "", "held"}[round%4]
				t.Run(fmt.Sprint(round), func(t *testing.T) {
					t.Parallel()
					l := newLongPlay(t, slices.Concat(ways[name], []string{"--latency", fmt.Sprint(round%3, "ms")})...)
					l.killed(t, rand.New(rand.NewPCG(uint64(batch), uint64(round))), most-round%2, lasts)
					if diff := cmp.Diff(want[name], l.ending(t)); diff != "" {
						t.Errorf("after %d kills (-want +got):\n%s", l.kills, diff)
					}
					kills.Add(int64(l.kills))
				})
			}
		})
		rounds = more // until there are enough
	}
	t.Logf("%d kills", kills.Load())
}

// held returns a file of a run that is not to start by itself.
func held(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("tutorial", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimRight(string(b), "\n") + "\n  state: Initialize\n"
}

func isMember(words string) bool { return strings.HasPrefix(words, "Member ") }

// killed plays to the end, with up to so many kills on the way.
func (l *longPlay) killed(t *testing.T, random *rand.Rand, kills int, lasts time.Duration) {
	t.Helper()
	for range kills {
		at := signalAt{signal: syscall.SIGKILL, after: time.Duration(random.Int64N(int64(lasts)))}
		if random.IntN(2) == 0 {
			at.line, at.after = 1+random.IntN(25), time.Duration(random.Int64N(int64(20*time.Millisecond)))
		}
		if p := l.process(t, at); p.code != -1 {
			p.want(t, cli.ExitDone, "")
			break
		}
	}
	l.process(t, undisturbed).want(t, cli.ExitDone, "")
	if got := len(l.members); got != 6 {
		t.Errorf("what %d members hold was shown, want 3 after each of 2 runs: %v", got, l.members)
	}
}
