package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// The soak program plays random scenarios, with faults in its own process and
// with kills in others, and finds nothing.
func TestRandomScenariosKeepTheLaws(t *testing.T) {
	lasts := "12s"
	if soak() {
		lasts = "10m"
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"-for", lasts, "-seed", "36", "-most", "8", "-dir", t.TempDir()}, &out, &errs); code != 0 {
		t.Errorf("exit code %d\n%s%s", code, &out, &errs)
	}
	t.Log(out.String())
}

// An interrupt ends the program well, with a summary.
func TestAnInterruptEndsTheProgramWell(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer stop()
	var out, errs bytes.Buffer
	if code := run(ctx, []string{"-most", "3", "-dir", t.TempDir()}, &out, &errs); code != 0 || !strings.Contains(out.String(), "scenarios, ") {
		t.Errorf("exit code %d\n%s%s", code, &out, &errs)
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
		}
		if names[0] != names[1] {
			t.Fatalf("scenario %d:\n%s\nand\n%s", n, names[0], names[1])
		}
	}
}

// A step that is never done is a violation that says what is waited for.
func TestAStepThatIsStuckIsAViolation(t *testing.T) {
	w := newTestWorld(t)
	s := script{name: "stuck", clusters: storyClusters(), patience: 20 * time.Millisecond, steps: []step{
		declareStep("web", 0), editStep("web", "v"), captureStep("web", 0),
		{"never", func(context.Context, *world) (bool, error) { return false, nil }},
	}}
	err := s.play(t.Context(), w, func() {})
	if !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "never") {
		t.Errorf("%v, want errBroken", err)
	}
}

// What is taken up after a scenario is compared with what was before.
func TestMoreThanBeforeIsAViolation(t *testing.T) {
	base := health{heap: 1 << 20, goroutines: 3, descriptors: 9, files: footprint{engine: 1 << 20, world: 1 << 20, kept: 1 << 10}}
	same := base
	if err := same.against(&base); err != nil {
		t.Error(err)
	}
	for name, grow := range map[string]func(*health){
		"heap":        func(h *health) { h.heap += 17 << 20 },
		"goroutines":  func(h *health) { h.goroutines += 3 },
		"descriptors": func(h *health) { h.descriptors += 3 },
		"records":     func(h *health) { h.files.kept += 513 << 10 },
		"files":       func(h *health) { h.files.engine += 3 << 20 },
	} {
		h := base
		grow(&h)
		if err := h.against(&base); !errors.Is(err, errBroken) {
			t.Errorf("%s: %v, want errBroken", name, err)
		}
	}
}
