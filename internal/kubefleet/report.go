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

// suite is what a report of ginkgo has of a suite.
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

// name is that of the containers and the step.
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

// report counts the steps in reports, and returns an error where one failed that is not known to,
// each of which it names. A step that was skipped because one before it failed counts as failed.
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

// count returns how many steps passed, and the names of those that did not. A step that was not
// chosen, or that the suite itself skips, is neither.
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
type known struct {
	// steps are what the names of steps begin with, messages are parts of the messages of failures.
	steps, messages []string
}

// surprises are the names of the steps that failed and are not known to, and behind is how many
// more were skipped. A step that was skipped is known if one that failed in its outermost
// container is, which may be ordered as a whole: a step there that failed otherwise is named
// itself.
func (k *known) surprises(specs []spec) (names []string, behind int) {
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
func (k *known) has(r *spec) bool {
	return slices.ContainsFunc(k.steps, func(prefix string) bool { return strings.HasPrefix(r.name(), prefix) }) ||
		slices.ContainsFunc(k.messages, func(part string) bool { return strings.Contains(r.Failure.Message, part) })
}

// readKnown reads a file of names, a line each, or of parts of messages, after "message:"; #
// begins a comment.
func readKnown(file string) (all *known, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	all = &known{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if part, is := strings.CutPrefix(line, "message:"); is {
			all.messages = append(all.messages, strings.TrimSpace(part))
		} else if line != "" && !strings.HasPrefix(line, "#") {
			all.steps = append(all.steps, line)
		}
	}
	return all, nil
}
