package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
)

// terminal returns a terminal with a typed answer.
func terminal(t *testing.T, answer string) *os.File {
	t.Helper()
	in, keyboard := silentTerminal(t)
	if _, err := keyboard.WriteString(answer + "\n"); err != nil {
		t.Fatal(err)
	}
	return in
}

// silentTerminal returns a terminal on which nothing is typed, and its keyboard.
func silentTerminal(t *testing.T) (in, keyboard *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keyboard.Close() })
	if err := unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	in, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() })
	return in, keyboard
}

// On a terminal the command shows the approval and asks for a confirmation; any answer except y
// records nothing.
func TestOnATerminalAnApprovalIsConfirmed(t *testing.T) {
	v := newEnv(t)
	for _, tt := range []struct {
		answer string
		code   int
		want   string
	}{
		{"n", cli.ExitFailed, "nothing is recorded"},
		{"", cli.ExitFailed, "nothing is recorded"},
		{"y", cli.ExitDone, "approve by ann is recorded"},
	} {
		var out bytes.Buffer
		args := []string{"--store", v.file, "approve", "shop-2", "--as", "ann"}
		code := run(t.Context(), args, genericiooptions.IOStreams{In: terminal(t, tt.answer), Out: &out, ErrOut: &out}, v.connect)
		if code != tt.code || !strings.Contains(out.String(), tt.want) || !strings.Contains(out.String(), "Plan:") || !strings.Contains(out.String(), "[y/N]") {
			t.Errorf("%q: %d, want %d and %q\n%s", tt.answer, code, tt.code, tt.want, out.String())
		}
	}
	v = newEnv(t)
	var out bytes.Buffer
	args := []string{"--store", v.file, "reject", "shop-2", "--yes", "--as", "bob"}
	if code := run(t.Context(), args, genericiooptions.IOStreams{In: terminal(t, "n"), Out: &out, ErrOut: &out}, v.connect); code != cli.ExitDone || strings.Contains(out.String(), "[y/N]") {
		t.Errorf("with --yes: %d\n%s", code, out.String())
	}
}

// asked is an output that reports a question.
type asked struct {
	bytes.Buffer
	question func()
}

func (a *asked) Write(p []byte) (int, error) {
	n, err := a.Buffer.Write(p)
	if bytes.HasSuffix(p, []byte("[y/N] ")) {
		a.question()
	}
	return n, err
}

// An interrupt at the question ends the command with exit code 130, and --timeout with 5. Nothing
// is recorded.
func TestAQuestionEndsByAnInterrupt(t *testing.T) {
	v := newEnv(t)
	for _, tt := range []struct {
		args []string
		code int
	}{
		{[]string{"approve", "shop-2"}, cli.ExitInterrupted},
		{[]string{"delete", "run", "shop-1"}, cli.ExitInterrupted},
		{[]string{"approve", "shop-2", "--timeout", "100ms"}, cli.ExitTimeout},
	} {
		in, _ := silentTerminal(t)
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		out := &asked{question: func() {
			if tt.code == cli.ExitInterrupted {
				interrupt()
			}
		}}
		code := run(ctx, append([]string{"--store", v.file}, tt.args...), genericiooptions.IOStreams{In: in, Out: &out.Buffer, ErrOut: out}, v.connect)
		if code != tt.code || strings.Contains(out.String(), "recorded") || strings.Contains(out.String(), "deleted\n") && !strings.Contains(out.String(), "will be deleted") {
			t.Errorf("%q: %d, want %d\n%s", tt.args, code, tt.code, out.String())
		}
	}
	v.shows(cli.ExitDone, "get runs", "shop-1")
	v.shows(cli.ExitDone, "get approvals", "shop-2-after-canary")
}
