package main

import (
	"bytes"
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
	in, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() })
	if _, err := keyboard.WriteString(answer + "\n"); err != nil {
		t.Fatal(err)
	}
	return in
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
	var out bytes.Buffer
	args := []string{"--store", v.file, "reject", "shop-2", "--yes", "--as", "bob"}
	if code := run(t.Context(), args, genericiooptions.IOStreams{In: terminal(t, "n"), Out: &out, ErrOut: &out}, v.connect); code != cli.ExitDone || strings.Contains(out.String(), "[y/N]") {
		t.Errorf("with --yes: %d\n%s", code, out.String())
	}
}
