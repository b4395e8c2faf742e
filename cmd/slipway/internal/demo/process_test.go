//go:build unix

package demo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/stages"
)

// asProgram, set in the environment of this test binary, makes it the program.
const asProgram = "DEMO_IS_THE_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := run(ctx, os.Args[1:], genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
		stop()
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// program returns the program, not started yet. A process that hangs is killed.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self, args...)
	// The race detector makes a process wait for a second when it ends.
	cmd.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	cmd.Dir = t.TempDir() // the files are built in
	return cmd
}

// TestCtrlCEndsTheProcess interrupts the program in the middle of a wait.
func TestCtrlCEndsTheProcess(t *testing.T) {
	t.Parallel()
	cmd := program(t, "-o", "json", "--wait", "0", "--latency", "0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && !strings.Contains(lines.Text(), "WaitStarted") {
		continue
	}
	began := time.Now()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if rest, _ := io.ReadAll(stdout); len(rest) > 0 {
		t.Errorf("printed after the interrupt: %s", rest)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != cli.ExitInterrupted {
		t.Errorf("%v, want exit code %d", err, cli.ExitInterrupted)
	}
	if d := time.Since(began); d > 20*time.Second { // the wait takes a minute
		t.Errorf("it took %v", d)
	}
	if !strings.Contains(stderr.String(), "run example-run is Running in stage staging") {
		t.Errorf("stderr %q", stderr.String())
	}
}

// TestCtrlCAndTheSameCommandAgain interrupts the program and continues the run with the same
// command.
func TestCtrlCAndTheSameCommandAgain(t *testing.T) {
	t.Parallel()
	l := newLongPlay(t, "--wait", "1s")
	p := l.process(t, signalAt{signal: syscall.SIGINT, text: "WaitStarted"})
	p.want(t, cli.ExitInterrupted, "run example-run is Running in stage staging, 1 of 3 clusters done, waits at staging: timed wait, until ")
	p.want(t, cli.ExitInterrupted, "; everything is kept in "+l.dir()+", and the same command continues\n")
	rest := l.process(t, undisturbed)
	rest.want(t, cli.ExitDone, "")
	l.ending(t) // nothing was printed twice
	p.out += rest.out
	if diff := cmp.Diff(wholeStory, story(p.objects(t))); diff != "" {
		t.Errorf("the story of both (-want +got):\n%s", diff)
	}
	for wait, want := range map[string]string{"1s": "# run example-run is Completed", "2s": "# run example-run continues as it was created, with the --wait and the files of its creation\n"} {
		text := program(t, append(slices.Clone(l.args), "-o", "text", "--wait", wait)...)
		out, err := text.CombinedOutput()
		if err != nil || !strings.HasSuffix(string(out), "example-run-2/member3  key=value1\n") || !strings.Contains(string(out), want) {
			t.Errorf("once more with --wait %s: %v, no %q\n%s", wait, err, want, out)
		}
	}
}

// TestADirectoryInUse starts two programs on the same directory.
func TestADirectoryInUse(t *testing.T) {
	t.Parallel()
	l := newLongPlay(t, "--wait", "0")
	first := program(t, l.args...)
	stdout, err := first.StdoutPipe()
	if err == nil {
		err = first.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(stdout); lines.Scan() && !strings.Contains(lines.Text(), "WaitStarted"); {
		continue
	}
	second := newLongPlay(t)
	second.args = l.args
	p := second.process(t, undisturbed)
	p.want(t, cli.ExitFailed, "the file is in use: another process has "+filepath.Join(l.dir(), storeFile)+" open")
	if p.out != "" || strings.Count(p.err, "\n") != 1 {
		t.Errorf("printed %q and %q, want one line", p.out, p.err)
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
}

// TestWaitElapsesWhileTheProcessIsDown kills the program at the beginning of a
// wait and starts it again when it is over.
func TestWaitElapsesWhileTheProcessIsDown(t *testing.T) {
	t.Parallel()
	const wait = 3 * time.Second
	l := newLongPlay(t, "--wait", wait.String())
	before := l.process(t, signalAt{signal: syscall.SIGKILL, text: "WaitStarted"}).objects(t)
	began := before[len(before)-1]
	if began.Type != stages.WaitStarted || began.Until.Sub(began.Time) != wait {
		t.Fatalf("%+v", began)
	}
	time.Sleep(time.Until(began.Until))
	var taken time.Time
	for _, o := range l.process(t, signalAt{signal: syscall.SIGKILL, text: "WaitEnded"}).objects(t) {
		switch {
		case o.Type == stages.RunTaken:
			taken = o.Time
		case o.Type == stages.WaitStarted && o.Event != began.Event:
			t.Errorf("another wait: %+v", o)
		case o.Type == stages.WaitEnded && (o.Time.Before(began.Until) || o.Time.Sub(taken) >= wait):
			t.Errorf("the wait from %v to %v ended at %v, the run was taken up again at %v", began.Time, began.Until, o.Time, taken)
		}
	}
	if taken.IsZero() {
		t.Error("the run was not taken up again")
	}
}

// TestAQuestionIsAskedAgain kills the program while it asks.
func TestAQuestionIsAskedAgain(t *testing.T) {
	t.Parallel()
	l := newLongPlay(t, "--approve", "ask")
	l.process(t, signalAt{signal: syscall.SIGKILL, text: "ApprovalRequested", after: 50 * time.Millisecond})
	l.types = "yes\nyes\n"
	p := l.process(t, undisturbed)
	p.want(t, cli.ExitDone, question)
	for _, o := range p.objects(t) {
		if o.Type == stages.ApprovalAccepted && o.By != "you" {
			t.Errorf("%s was approved by %q", o.Run, o.By)
		}
	}
	for _, run := range []string{"example-run", "example-run-2"} {
		if n := strings.Count(p.out, `"type":"ApprovalAccepted","placement":"example-placement","run":"`+run+`"`); n != 1 {
			t.Errorf("%s was approved %d times", run, n)
		}
	}
}
