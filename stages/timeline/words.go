package timeline

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/slipway-dev/slipway/stages"
)

// title names the run.
func (t *Timeline) title() string {
	if t.Title != "" {
		return t.Title
	}
	out := "Run"
	if t.Run != "" {
		out += " " + t.Run
	}
	if t.Placement != "" {
		out += " of placement " + t.Placement
	}
	if t.RollsBack != "" {
		out += ", which rolls back " + t.RollsBack
	}
	return out
}

// summary describes the result of the run.
func (t *Timeline) summary() string {
	state := string(t.State)
	switch {
	case t.Back == "" && !t.Now.IsZero() && !t.Ends.IsZero():
		state = fmt.Sprintf("expected to be %s at %s, in %s", t.State, moment(t.Ends), short(t.Ends.Sub(t.Now)))
	case !t.Now.IsZero():
		state = string(t.State) + " at " + moment(t.Now)
	case !t.Ends.IsZero() && t.simulated:
		state = fmt.Sprintf("would be %s at %s after %s", t.State, moment(t.Ends), short(t.Ends.Sub(t.Start)))
	case !t.Ends.IsZero():
		state = fmt.Sprintf("%s at %s after %s", t.State, moment(t.Ends), short(t.Ends.Sub(t.Start)))
	}
	switch {
	case t.Back != "" && t.BackEnds.IsZero():
		state += "; being rolled back"
	case t.Back != "" && (t.simulated || t.BackEnds.After(t.Now) && !t.Now.IsZero()):
		state += fmt.Sprintf("; the rollback would be %s at %s", t.Back, moment(t.BackEnds))
	case t.Back != "":
		state += fmt.Sprintf("; the rollback is %s at %s", t.Back, moment(t.BackEnds))
	}
	clusters := []string{plural(t.Clusters, "cluster")}
	for _, n := range []struct {
		n    int
		what string
	}{{t.Completed, "completed"}, {t.Failed, "failed"}, {t.Skipped, "skipped"}} {
		if n.n > 0 {
			clusters = append(clusters, fmt.Sprintf("%d %s", n.n, n.what))
		}
	}
	out := state + " · " + strings.Join(clusters, ", ")
	if t.Note != "" {
		out += " · " + t.Note
	}
	return out
}

// moment formats a moment to the second.
func moment(t time.Time) string { return t.Format("2006-01-02 15:04:05") + " UTC" }

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// kinds are all kinds in the order of legends.
var kinds = []Kind{ //nolint:gochecknoglobals // a constant table
	Queued, Closed, Yielded, Applying, Settling, Soaking, Measuring, BackingOff, Completed, Failed, Skipped, Wait, Scheduled,
	Approval, Rejected, Expired, Checked, CheckFailed, HeldByCheck, Stopping, Stopped,
}

// kindWords describes the kinds.
var kindWords = map[Kind]string{ //nolint:gochecknoglobals // a constant table
	Queued: "waits for its turn", Closed: "outside its window", Yielded: "yielded its slot", Applying: "applying",
	Settling: "settling", Soaking: "soaking", Measuring: "measuring", BackingOff: "backing off", Completed: "completed", Failed: "failed",
	Skipped: "skipped", Wait: "timed wait", Scheduled: "scheduled start", Approval: "approval", Rejected: "rejected",
	Expired: "expired", Checked: "check", CheckFailed: "check failed", HeldByCheck: "held by a check", Stopping: "stopping", Stopped: "stopped",
}

// words describes a segment, without its time.
func (s *Segment) words() string {
	out := kindWords[s.Kind]
	by := strings.Join(s.By, ", ")
	switch {
	case s.Kind == Closed && s.Count > 0:
		out = plural(s.Count, "cluster") + " outside their windows"
	case s.Kind == Skipped && s.Count > 0:
		out = plural(s.Count, "cluster") + " skipped"
	case s.Kind == HeldByCheck:
		out = "no cluster starts: " + cut(s.Message, 160)
	case (s.Kind == Checked || s.Kind == CheckFailed) && s.Message != "":
		out = cut(s.Message, 160)
	case s.Kind == Approval && s.Expected:
		out = "approval, assumed"
	case s.Kind == Approval && s.Open && by != "":
		out = "approved by " + by + ", and more is needed"
	case s.Kind == Approval && s.Open:
		out = "waits for approval"
	case s.Kind == Approval && by != "":
		out = "approved by " + by
	case by != "":
		out += " by " + by
	}
	if s.Attempt > 1 {
		out += fmt.Sprintf(", attempt %d", s.Attempt)
	}
	if s.Message != "" && len(s.By) > 0 && (s.Kind == Approval || s.Kind == Rejected) {
		out += ": " + cut(s.Message, 160)
	}
	return out
}

// tip describes a segment completely.
func (s *Segment) tip() string {
	out := s.words()
	if s.From.Equal(s.To) {
		out += "\n" + moment(s.From)
	} else {
		out += fmt.Sprintf("\n%s, %s", moment(s.From), short(s.To.Sub(s.From)))
	}
	if s.Expected {
		out += ", expected"
	}
	if s.Message != "" && !strings.Contains(out, s.Message) {
		out += "\n" + cut(s.Message, 160)
	}
	return out
}

// markWords describes the types of marks.
var markWords = map[stages.EventType]string{ //nolint:gochecknoglobals // a constant table
	stages.RunQueued: "queued", stages.RunStarted: "started", stages.RunStopping: "stopping", stages.RunStopped: "stopped",
	stages.RunResumed: "resumed", stages.RunRetried: "retried", stages.RollbackRequested: "rollback requested",
	stages.RollbackRefused: "rollback refused", stages.RunClosing: "closing", stages.RunCompleted: "completed",
	stages.RunFailed: "failed", stages.RunAborted: "aborted", stages.RunSuperseded: "superseded",
	stages.WindowsBypassed: "windows bypassed", stages.CommandRefused: "command refused",
}

// words describes a mark, without its time.
func (m *Mark) words() string {
	out := markWords[m.Type]
	if m.Back {
		out = "rollback " + out
	}
	if m.By != "" {
		out += " by " + m.By
	}
	return out
}

// tip describes a mark completely.
func (m *Mark) tip() string {
	out := m.words() + ", " + moment(m.At)
	if m.Expected {
		out += ", expected"
	}
	if m.Message != "" {
		out += "\n" + cut(m.Message, 160)
	}
	return out
}

// title names a stage.
func (st *Stage) title() string {
	if st.Back {
		return "rollback: " + st.Name
	}
	return st.Name
}

// title names a group in its stage.
func (g *Group) title() string {
	switch {
	case g.Merged > 0:
		return plural(g.Merged, "group")
	case g.Name == "":
		return "clusters"
	default:
		return g.Name
	}
}

// cut shortens a text to so many characters.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	if most < 1 {
		return ""
	}
	return string(runes[:most-1]) + "…"
}

// plain replaces characters that do not occupy exactly one column: control characters, combining
// characters and wide characters.
func plain(s string) string {
	return strings.Map(func(c rune) rune {
		if c >= 0x1100 && (c < 0x2010 || c > 0x2027) || !unicode.IsPrint(c) || unicode.In(c, unicode.Mn, unicode.Me) {
			return '?'
		}
		return c
	}, s)
}
