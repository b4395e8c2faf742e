package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
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

// report counts the steps in reports, and returns an error where one failed that is not known to, each of which it names. A step
// that was skipped because one before it failed counts as failed.
func report(w io.Writer, known string, files []string) error {
	expected, err := readKnown(known)
	if err != nil {
		return err
	}
	var passed, failed int
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
			for _, name := range names {
				if !expected.has(name) {
					surprises = append(surprises, name)
				}
			}
		}
	}
	fmt.Fprintf(w, "%d of %d steps passed\n", passed, passed+failed)
	if len(surprises) > 0 {
		return fmt.Errorf("%d steps failed that %s does not name:\n  %s", len(surprises), known, strings.Join(surprises, "\n  "))
	}
	if passed == 0 {
		return errors.New("no step was run")
	}
	return nil
}

// count returns how many steps passed, and the names of those that did not. One that was not chosen is skipped without a reason.
func (s *suite) count() (passed int, failed []string) {
	for i := range s.SpecReports {
		switch r := &s.SpecReports[i]; {
		case r.LeafNodeType != "It" || r.State == "skipped" && r.Failure.Message == "":
		case r.State == "passed":
			passed++
		default:
			failed = append(failed, r.name())
		}
	}
	return passed, failed
}

// knownSteps are what the names of steps that may fail begin with.
type knownSteps []string

func (k knownSteps) has(name string) bool {
	for _, prefix := range k {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// readKnown reads a file of names, a line each; # begins a comment.
func readKnown(file string) (all knownSteps, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if line := strings.TrimSpace(lines.Text()); line != "" && !strings.HasPrefix(line, "#") {
			all = append(all, line)
		}
	}
	return all, nil
}
