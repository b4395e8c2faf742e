//go:build unix

package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestCtrlCEndsTheProcess builds the program and interrupts it in the middle of
// a wait.
func TestCtrlCEndsTheProcess(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "quickstart")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), program, "-o", "json", "-wait", "0", "-latency", "0")
	cmd.Dir = t.TempDir() // the files are built in
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
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
		t.Errorf("%v, want exit code %d", err, exitInterrupted)
	}
	if d := time.Since(began); d > time.Second {
		t.Errorf("it took %v", d)
	}
	if !strings.Contains(stderr.String(), "run example-run was left Running in stage staging") {
		t.Errorf("stderr %q", stderr.String())
	}
}
