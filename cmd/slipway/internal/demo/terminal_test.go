//go:build unix

package demo

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/watch/watchtest"
)

// onTerminal starts the program on a terminal of a size.
func onTerminal(t *testing.T, columns, rows int, args ...string) *watchtest.Terminal {
	t.Helper()
	cmd := program(t, append([]string{"--wait", "200ms", "--latency", "0"}, args...)...)
	cmd.Env = append(cmd.Env, "TERM=xterm-256color", "LC_ALL=C.UTF-8", "TZ=UTC", "NO_COLOR=1")
	return watchtest.Start(t, cmd, columns, rows)
}

var moments = regexp.MustCompile(`\d\d:\d\d:\d\d|\b\d+s\b`)

func TestOnATerminalTheRunsAreDrawn(t *testing.T) {
	t.Parallel()
	for name, size := range map[string][2]int{"screen-80x24.txt": {80, 24}, "screen-200x60.txt": {200, 60}} {
		term := onTerminal(t, size[0], size[1])
		if code := term.Wait(); code != cli.ExitDone {
			t.Errorf("exit code %d", code)
		}
		if term.Drawn() {
			t.Error("the terminal was not given back")
		}
		golden(t, name, moments.ReplaceAllString(term.Screen(), "TIME")+"\n")
	}
}

func TestTheRequestIsShownBeforeItIsApproved(t *testing.T) {
	t.Parallel()
	term := onTerminal(t, 80, 24, "--approve", "ask")
	for _, run := range []string{"example-run", "example-run-2"} {
		term.UntilText(run+"  example-placement", "a shows what waits for approval")
		term.Type("a")
		term.UntilText("Approve "+run+"-canary?", "clusters updated: member3, member1", "y approves   r rejects   n leaves it open")
		term.Type("n")
		term.Until("the prompt was left", func(s string) bool { return !strings.Contains(s, "Approve ") })
		term.Type("a")
		term.UntilText("Approve " + run + "-canary?")
		term.Type("y\r")
	}
	if code := term.Wait(); code != cli.ExitDone || !strings.Contains(term.Screen(), "approved by you") {
		t.Errorf("exit code %d:\n%s", code, term.Screen())
	}
}

func TestDemoResumesAfterQuitting(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	for key, leave := range map[string]string{"Ctrl-C": "\x03", "q": "q"} {
		term := onTerminal(t, 80, 24, "--approve", "ask", "--data", dir)
		term.UntilText("waits for approval example-run-canary: 1 more approval needed", "a shows what waits for approval")
		term.Type(leave)
		if code := term.Wait(); code != cli.ExitInterrupted || term.Drawn() {
			t.Errorf("%s: exit code %d", key, code)
		}
		joined := strings.ReplaceAll(term.Screen(), "\n", "")
		for _, want := range []string{
			"interrupted: run example-run is Running in stage canary, 3 of 3 clusters done, waits for approval example-run-canary: 1 more approval needed",
			"everything is kept in " + dir + ", and the same command continues",
		} {
			if !strings.Contains(joined, want) {
				t.Errorf("%s: it is not said that %s:\n%s", key, want, term.Screen())
			}
		}
	}
	term := onTerminal(t, 80, 24, "--data", dir)
	if code := term.Wait(); code != cli.ExitDone {
		t.Errorf("exit code %d:\n%s", code, term.Screen())
	}
}

// TestASecondTerminalApproves is the typical use: one terminal watches, and another one approves
// through the file.
func TestASecondTerminalApproves(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	term := onTerminal(t, 80, 24, "--approve", "ask", "--data", dir)
	for _, run := range []string{"example-run", "example-run-2"} {
		term.UntilText(run+"  example-placement", "a shows what waits for approval")
		approveElsewhere(t, dir, run)
	}
	if code := term.Wait(); code != cli.ExitDone || !strings.Contains(term.Screen(), "approved by alice") {
		t.Errorf("exit code %d:\n%s", code, term.Screen())
	}
}

// approveElsewhere answers the request of a run, as another process does.
func approveElsewhere(t *testing.T, dir, run string) {
	t.Helper()
	address, err := httpapi.Find(filepath.Join(dir, storeFile))
	if err != nil {
		t.Fatal(err)
	}
	c, err := httpapi.NewClient(address, httpapi.ClientOptions{As: approval.Identity{Name: "alice"}})
	if err == nil {
		err = c.Run(run).Command(t.Context(), stages.Command{Verb: stages.Decide, Name: run + "-canary", Decision: &approval.Decision{Verdict: approval.Approve}})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAQuestionIsWithdrawnWhenItIsAnsweredElsewhere(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	cmd := program(t, "-o", "text", "--wait", "50ms", "--latency", "0", "--approve", "ask", "--data", dir)
	typed, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := following(t, cmd)
	p.until(t, "Approve example-run-canary?")
	if _, err := typed.Write([]byte("n\n")); err != nil {
		t.Fatal(err)
	}
	p.until(t, "To answer later, from another terminal: slipway approve --store "+filepath.Join(dir, storeFile)+" example-run example-run-canary")
	approveElsewhere(t, dir, "example-run")
	p.until(t, "request example-run-canary was answered elsewhere")
	p.until(t, "Approve example-run-2-canary?")
	if _, err := typed.Write([]byte("y\n")); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// follower collects the output of a process on both streams.
type follower struct {
	text    strings.Builder
	written chan string
}

func following(t *testing.T, cmd *exec.Cmd) *follower {
	t.Helper()
	f := &follower{written: make(chan string, 1024)}
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *follower) Write(p []byte) (int, error) {
	f.written <- string(p)
	return len(p), nil
}

// until waits for a text.
func (f *follower) until(t *testing.T, text string) {
	t.Helper()
	for !strings.Contains(f.text.String(), text) {
		select {
		case more := <-f.written:
			f.text.WriteString(more)
		case <-time.After(watchtest.Patience):
			t.Fatalf("%s does not come:\n%s", text, f.text.String())
		}
	}
}
