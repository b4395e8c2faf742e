//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/watch/watchtest"
)

// onTerminal runs the command on a terminal of a size. The function that it returns waits for its
// exit code.
func (v *env) onTerminal(columns, rows int, args ...string) (*watchtest.Terminal, func() int) {
	v.t.Helper()
	term, tty := watchtest.Open(v.t, columns, rows)
	ctx, cancel := context.WithCancel(context.Background())
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, args, genericiooptions.IOStreams{In: tty, Out: tty, ErrOut: tty}, v.connect)
	}()
	end := func() int {
		c := <-code
		code <- c
		return c
	}
	v.t.Cleanup(func() {
		cancel()
		end()
	})
	return term, end
}

var sizes = [][2]int{{80, 24}, {200, 60}}

func TestWatchDrawsARunThatAnotherTerminalApproves(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	for _, size := range sizes {
		v := newEnv(t)
		_, end := v.serve()
		term, code := v.onTerminal(size[0], size[1], "watch", "shop-2", "--store", v.file)
		term.UntilText("shop-2  shop", "waits for approval shop-2-after-canary: 1 more approval needed", "ends with the approval", "a shows what waits for approval")
		v.shows(cli.ExitDone, "approve shop-2 --as ann --yes")
		if got := code(); got != cli.ExitDone {
			t.Errorf("exit code %d", got)
		}
		term.UntilText("Completed in", "approved by ann")
		term.Until("the terminal is given back", func(string) bool { return !term.Drawn() })
		end()
	}
}

func TestWatchAnswersTheShownApproval(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	v := newEnv(t)
	v.serve()
	term, code := v.onTerminal(80, 24, "watch", "run/shop-2", "--store", v.file, "--as", "ann")
	term.UntilText("a shows what waits for approval")
	term.Type("a")
	term.UntilText("Approve shop-2-after-canary?", "run shop-2, plan ", "after stage canary", "y approves   r rejects   n leaves it open")
	term.Type("r\r")
	if got := code(); got != cli.ExitUnsuccessful {
		t.Errorf("exit code %d of a run that was rejected", got)
	}
	term.UntilText("Failed in", "rejected by ann", "error: run shop-2 failed: request shop-2-after-canary was rejected by ann; it is", "rolls back shop-2  Completed")
}

func TestTheRunContinuesAfterAWatchIsClosed(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	v := newEnv(t)
	v.serve()
	for key, want := range map[string]int{"q": cli.ExitInterrupted, "\x03": cli.ExitInterrupted} {
		term, code := v.onTerminal(80, 24, "watch", "shop-2", "--store", v.file)
		term.UntilText("q leaves, the run goes on")
		term.Type(key)
		if got := code(); got != want {
			t.Errorf("%q: exit code %d, want %d", key, got, want)
		}
		term.Until("the terminal is given back", func(string) bool { return !term.Drawn() })
	}
	v.shows(cli.ExitDone, "get runs shop-2", "Running")
	term, code := v.onTerminal(80, 24, "watch", "shop-2", "--store", v.file, "--timeout", "300ms")
	if got := code(); got != cli.ExitTimeout {
		t.Errorf("exit code %d after --timeout:\n%s", got, term.Screen())
	}
}

func TestWatchWithoutATerminalPrintsEvents(t *testing.T) {
	v := newEnv(t)
	out := v.shows(cli.ExitFailed, "watch shop-2", "ApprovalRequested shop-2/canary", "Z RunTaken ")
	if strings.Contains(out, "\x1b") || strings.Contains(out, "…") {
		t.Errorf("drawn: %s", out)
	}
	v.serve()
	lines, end := v.start("watch", "shop-2", "--store", v.file)
	until(t, lines, string(stages.ApprovalRequested))
	v.shows(cli.ExitDone, "approve shop-2 --as ann --yes")
	until(t, lines, string(stages.RunCompleted))
	for lines.Scan() { // to its end
	}
	if code, errOut := end(); code != cli.ExitDone || errOut != "" {
		t.Errorf("exit code %d, %s", code, errOut)
	}
	v.shows(cli.ExitUsage, "watch shop-2 -o json", "want table or wide")
	v.shows(cli.ExitFailed, "watch other", "other")
}

// After the first Ctrl-C the command ends its work; a second one ends the process immediately.
func TestASecondInterruptEndsTheProcess(t *testing.T) {
	plugin := filepath.Join(t.TempDir(), "kubectl-slipway")
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, plugin)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), plugin, "simulate", "-")
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if _, err := in.Write(bytes.Repeat([]byte("# more than a pipe holds\n"), 10_000)); err != nil { // it is read, to its end
		t.Fatal(err)
	}
	for sent := 0; ; sent++ {
		if err := cmd.Process.Signal(os.Interrupt); err != nil && sent == 0 {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			exit, is := errors.AsType[*exec.ExitError](err)
			if !is || sent == 0 {
				t.Fatalf("it ended after interrupt %d: %v", sent+1, err)
			}
			if status, is := exit.Sys().(syscall.WaitStatus); !is || status.Signal() != syscall.SIGINT {
				t.Errorf("it ended with %v", err)
			}
			return
		case <-time.After(500 * time.Millisecond):
		}
	}
}
