package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/internal/soak/environment"
	"github.com/slipway-dev/slipway/internal/soak/laws"
)

// program returns the soak program with these arguments, in a process of its
// own: its scenarios take real time.
func program(t *testing.T, args ...string) (cmd *exec.Cmd, out, errs *bytes.Buffer) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), os.Args[0], append([]string{"program", "-dir", t.TempDir()}, args...)...)
	out, errs = new(bytes.Buffer), new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, errs
	return cmd, out, errs
}

// The soak program plays random scenarios, with faults in its own process and
// with kills in others, and finds nothing.
func TestRandomScenariosKeepTheLaws(t *testing.T) {
	lasts := "12s"
	if soak() {
		lasts = "10m"
	}
	cmd, out, errs := program(t, "-for", lasts, "-seed", "36", "-most", "8")
	if err := cmd.Run(); err != nil {
		t.Errorf("%v\n%s%s", err, out, errs)
	}
	t.Log(out)
}

// An interrupt ends the program well, with a summary.
func TestAnInterruptEndsTheProgramWell(t *testing.T) {
	cmd, out, errs := program(t, "-most", "3")
	cmd.Stdout = nil
	said, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(said)
	if first, err := lines.ReadString('\n'); !strings.HasPrefix(first, "seed ") {
		t.Errorf("it begins with %q: %v", first, err)
	}
	time.Sleep(500 * time.Millisecond) // into the first scenario
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	_, _ = out.ReadFrom(lines)
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "scenarios, ") {
		t.Errorf("%v\n%s%s", err, out, errs)
	}
}

// A seed and a number draw the same scenario every time: a violation can be
// repeated.
func TestAScenarioIsDrawnAgainFromItsSeed(t *testing.T) {
	for n := range 50 {
		var names [2]string
		for i := range names {
			s := newScenario(9, n, 60)
			for _, st := range s.script().steps {
				names[i] += st.name + "\n"
			}
			if r := s.clockRand(); r != nil {
				names[i] += fmt.Sprint("clocks ", r.Uint64())
			}
		}
		if names[0] != names[1] {
			t.Fatalf("scenario %d:\n%s\nand\n%s", n, names[0], names[1])
		}
	}
}

// A step that never completes is a violation, which contains the reason of the wait.
func TestAStepThatIsStuckIsAViolation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := newTestEnvironment(t)
		s := script{name: "stuck", clusters: storyClusters(), patience: 20 * time.Second, steps: []act{
			declareStep("web", 0), editStep("web", "v"), captureStep("web", 0),
			{"never", func(context.Context, *environment.Environment) (bool, error) { return false, nil }},
		}}
		ctx, stop := context.WithTimeout(t.Context(), 2*s.patience)
		defer stop()
		began := time.Now()
		err := s.play(ctx, env, func() {})
		if !errors.Is(err, laws.ErrViolated) || !strings.Contains(err.Error(), "never") {
			t.Errorf("%v, want laws.ErrViolated", err)
		}
		if took := time.Since(began); took < s.patience {
			t.Errorf("it was a violation after %v, want %v", took, s.patience)
		}
	})
}

// The resources after a scenario are compared with the resources before it.
func TestGrownResourcesAreViolations(t *testing.T) {
	base := health{heap: 1 << 20, goroutines: 3, descriptors: 9, files: environment.Footprint{EngineBytes: 1 << 20, ClusterBytes: 1 << 20, RecordBytes: 1 << 10}}
	same := base
	if err := same.against(&base); err != nil {
		t.Error(err)
	}
	for name, grow := range map[string]func(*health){
		"heap":        func(h *health) { h.heap += 17 << 20 },
		"goroutines":  func(h *health) { h.goroutines += 3 },
		"descriptors": func(h *health) { h.descriptors += 3 },
		"records":     func(h *health) { h.files.RecordBytes += 513 << 10 },
		"files":       func(h *health) { h.files.EngineBytes += 3 << 20 },
	} {
		h := base
		grow(&h)
		if err := h.against(&base); !errors.Is(err, laws.ErrViolated) {
			t.Errorf("%s: %v, want laws.ErrViolated", name, err)
		}
	}
}
