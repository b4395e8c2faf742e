package watch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/stages"
)

// Line formats an event on one line, for a log: its time in UTC, its type, its subject as
// run/stage/group/cluster, and the rest as key=value. It contains no line breaks and no control
// characters.
func Line(e stages.Event) string {
	run := e.Run
	if run == "" {
		run = e.Placement
	}
	return LineOf(e.Time, string(e.Type), []string{run, e.Stage, e.Group, e.Cluster}, details(&e))
}

// LineOf formats a line like [Line] for something that is no event of the engine. It omits empty
// words of where.
func LineOf(at time.Time, kind string, where []string, rest string) string {
	where = slices.DeleteFunc(slices.Clone(where), func(s string) bool { return s == "" })
	line := fmt.Sprintf("%s %-17s %s", at.UTC().Format("2006-01-02T15:04:05.000Z"), kind, strings.Join(where, "/"))
	if rest != "" {
		line += "  " + rest
	}
	return strings.Map(printable, line)
}

// details formats the fields of an event that follow the beginning of its line.
func details(e *stages.Event) string {
	var out []string
	add := func(is bool, format string, args ...any) {
		if is {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	if e.Index != nil {
		add(true, "index=%d", *e.Index)
	}
	add(e.Digest != "", "digest=%.12s", e.Digest)
	add(e.Count != 0, "count=%d", e.Count)
	add(e.Attempt > 1, "attempt=%d", e.Attempt)
	add(e.Epoch != 0, "epoch=%d", e.Epoch)
	add(e.Request != "", "request=%s", e.Request)
	add(e.Command != "", "command=%s", e.Command)
	add(e.By != "", "by=%s", e.By)
	add(e.Unchanged, "unchanged")
	add(!e.Until.IsZero(), "for=%s", length(e.Until.Sub(e.Time)))
	add(e.Message != "", "message=%q", e.Message)
	return strings.Join(out, " ")
}
