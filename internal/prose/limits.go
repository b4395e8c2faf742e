package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
)

// limits are the greatest values that the measures may have.
type limits struct {
	// since is a revision: the titles of later commits count.
	since string
	// most has a limit in percent for each measure, in the order of names.
	most  map[string]float64
	names []string
}

// slack is the maximum distance of a value below its limit, in percentage points. Beyond that the
// limit must be lowered, so that an improvement is kept.
const slack = 1.0

func readLimits(file string) (*limits, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parseLimits(file, b)
}

// parseLimits reads a line "NAME VALUE" for each measure and one "since REVISION". Lines that begin
// with # are comments.
func parseLimits(file string, b []byte) (*limits, error) {
	l := &limits{most: map[string]float64{}}
	lines := bufio.NewScanner(bytes.NewReader(b))
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		name, value, _ := strings.Cut(text, " ")
		value = strings.TrimSpace(value)
		if name == "since" {
			l.since = value
			continue
		}
		most, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %q: must be a name and a percentage", file, n, text)
		}
		l.most[name], l.names = most, append(l.names, name)
	}
	if l.since == "" {
		return nil, fmt.Errorf("%s: the line since REVISION is missing", file)
	}
	return l, lines.Err()
}

// check returns an error for each measure that has no limit, is above it, or is so far below it
// that the limit must be lowered.
func (l *limits) check(got []measured) error {
	var problems []error
	for _, m := range got {
		most, ok := l.most[m.name]
		switch at := strings.TrimSpace(m.name + " " + m.place); {
		case !ok:
			problems = append(problems, fmt.Errorf("%s has no limit in %s", at, limitsFile))
		case m.value > most:
			problems = append(problems, fmt.Errorf("%s: %.1f%%, at most %.1f%%: go run ./internal/prose -show PATH prints the sentences", at, m.value, most))
		case m.value < most-slack && m.name != inTitles: // the next title counts much among few
			problems = append(problems, fmt.Errorf("%s: %.1f%% is far below the limit of %.1f%%: go run ./internal/prose -lower, and commit %s", at, m.value, most, limitsFile))
		}
	}
	return errors.Join(problems...)
}

// lowered returns the limits for the values that were reached, to the next half percent. No limit
// rises, and the limit of titles stays.
func (l *limits) lowered(got []measured) *limits {
	out := &limits{since: l.since, most: map[string]float64{}}
	for _, m := range got {
		reached := math.Ceil(2*m.value) / 2
		if most, ok := l.most[m.name]; ok && m.name == inTitles {
			reached = most
		} else if ok {
			reached = min(reached, most)
		}
		out.most[m.name], out.names = reached, append(out.names, m.name)
	}
	return out
}

func (l *limits) write(file string) error {
	var b bytes.Buffer
	b.WriteString("# The limits of the measures in measure.go, in percent, and the revision after which titles of commits count.\n")
	fmt.Fprintf(&b, "since %s\n", l.since)
	for _, name := range l.names {
		fmt.Fprintf(&b, "%s %.1f\n", name, l.most[name])
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}
