package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// suite is the part of a ginkgo report about one suite.
type suite struct {
	SpecReports []spec
}

type spec struct {
	ContainerHierarchyTexts []string
	LeafNodeType            string
	LeafNodeText            string
	State                   string
	Failure                 struct{ Message string }
}

// name is the name of the containers and the step.
func (s *spec) name() string {
	return strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " / ")
}

// outermost is the name of the outermost container.
func (s *spec) outermost() string {
	return strings.Join(s.ContainerHierarchyTexts[:min(1, len(s.ContainerHierarchyTexts))], "")
}

// isBehind reports whether a step was skipped because one before it failed.
func (s *spec) isBehind() bool {
	return s.LeafNodeType == "It" && s.State == "skipped" && strings.Contains(s.Failure.Message, "an earlier spec")
}

// report counts the steps in reports, and returns an error that names each unexpected failure. A
// step that was skipped after an earlier failure counts as failed.
func report(w io.Writer, knownFile string, files []string) error {
	expected, err := readKnown(knownFile)
	if err != nil {
		return err
	}
	var passed, failed, behind int
	var surprises []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var suites []suite
		if err := json.Unmarshal(text, &suites); err != nil {
			return fmt.Errorf("%s is no report of ginkgo: %w", file, err)
		}
		for _, s := range suites {
			p, names := s.count()
			passed, failed = passed+p, failed+len(names)
			unknown, skipped := expected.surprises(s.SpecReports)
			surprises, behind = append(surprises, unknown...), behind+skipped
		}
	}
	fmt.Fprintf(w, "%d of %d steps passed", passed, passed+failed)
	if behind > 0 {
		fmt.Fprintf(w, ", %d were not run after a known failure", behind)
	}
	fmt.Fprintln(w)
	if len(surprises) > 0 {
		return fmt.Errorf("%d steps failed that %s does not name:\n  %s", len(surprises), knownFile, strings.Join(surprises, "\n  "))
	}
	if passed == 0 {
		return errors.New("no step was run")
	}
	return nil
}

// count returns the number of passed steps, and the names of failed steps. A step that was not
// selected, or that the suite itself skips, counts as neither.
func (s *suite) count() (passed int, failed []string) {
	for i := range s.SpecReports {
		switch r := &s.SpecReports[i]; {
		case r.LeafNodeType != "It" || r.State == "skipped" && !r.isBehind():
		case r.State == "passed":
			passed++
		default:
			failed = append(failed, r.name())
		}
	}
	return passed, failed
}

// known are the failures that are expected.
type known []knownFailure

// knownFailure describes failures by the beginning of a step's name and a part of the failure
// message. An empty field fits everything.
type knownFailure struct{ step, message string }

// surprises returns the names of unexpectedly failed steps, and in behind the number of steps
// that were skipped after an expected failure in the same outermost container, which may be
// ordered as a whole. Any other failure in such a container is named separately.
func (k known) surprises(specs []spec) (names []string, behind int) {
	excused := map[string]bool{}
	for i := range specs {
		r := &specs[i]
		if r.LeafNodeType != "It" || r.State == "passed" || r.State == "skipped" {
			continue
		}
		if k.has(r) {
			excused[r.outermost()] = true
		} else {
			names = append(names, r.name())
		}
	}
	for i := range specs {
		r := &specs[i]
		switch {
		case !r.isBehind():
		case excused[r.outermost()]:
			behind++
		case !k.has(r):
			names = append(names, r.name())
		}
	}
	return names, behind
}

// has reports whether the failure of a step is known.
func (k known) has(r *spec) bool {
	return slices.ContainsFunc(k, func(f knownFailure) bool {
		return strings.HasPrefix(r.name(), f.step) && strings.Contains(r.Failure.Message, f.message)
	})
}

// readKnown reads a file that has a failure in each line: the name of a step, a part of a message
// after "message:", or both with " | " between them. A line with # is a comment. Lines with "skip:"
// are for .ci/kubefleet, which leaves these steps out.
func readKnown(file string) (all known, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "skip:") {
			continue
		}
		var failure knownFailure
		step, part, both := strings.Cut(line, " | message:")
		if both {
			failure = knownFailure{step: strings.TrimSpace(step), message: strings.TrimSpace(part)}
		} else if part, is := strings.CutPrefix(line, "message:"); is {
			failure.message = strings.TrimSpace(part)
		} else {
			failure.step = line
		}
		if failure == (knownFailure{}) {
			return nil, fmt.Errorf("%s: %q describes no failure", file, line)
		}
		all = append(all, failure)
	}
	return all, nil
}
