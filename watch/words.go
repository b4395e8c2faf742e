package watch

import (
	"fmt"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

// brief is a duration as people read it: two units at most, and nothing below a second.
func brief(d time.Duration) string {
	d = max(0, d).Truncate(time.Second)
	days, hours, minutes, seconds := d/(24*time.Hour), d/time.Hour%24, d/time.Minute%60, d/time.Second%60
	switch {
	case days > 0:
		return fmt.Sprintf("%dd%02dh", days, hours)
	case hours > 0:
		return fmt.Sprintf("%dh%02dm", hours, minutes)
	case minutes > 0:
		return fmt.Sprintf("%dm%02ds", minutes, seconds)
	default:
		return fmt.Sprintf("%ds", seconds)
	}
}

// length is a duration without fractions that nobody reads: two units at most from a minute on.
func length(d time.Duration) string {
	if d >= time.Minute {
		return brief(d)
	}
	return d.Round(time.Millisecond).String()
}

// snapshotName names the snapshot of an index; a run that removes a placement brings none.
func snapshotName(index int) string {
	if index < 0 {
		return "no snapshot"
	}
	return fmt.Sprintf("snapshot %d", index)
}

// clock is a moment in the location of now, with its day where that is another one.
func clock(at, now time.Time) string {
	at = at.In(now.Location())
	if at.YearDay() != now.YearDay() || at.Year() != now.Year() {
		return at.Format("Jan 2 15:04")
	}
	return at.Format("15:04:05")
}

// until says when something ends, and how far ahead that is.
func until(at, now time.Time) string {
	if left := at.Sub(now); left > 0 {
		return "until " + clock(at, now) + ", in " + brief(left)
	}
	return "until " + clock(at, now)
}

// waitingFor says what a run waits for, in the words of [step.Waiting], and how a person ends that.
func waitingFor(a *stages.Awaited, now time.Time, hint func(stages.Awaited) string) string {
	out := map[stages.Await]string{
		stages.AwaitStart:    "waits for a start",
		stages.AwaitRun:      "waits for run " + a.Name,
		stages.AwaitTime:     "waits at " + a.Name,
		stages.AwaitWindow:   "waits for windows of " + a.Name,
		stages.AwaitDecision: "waits for approval " + a.Name,
		stages.AwaitTimeout:  "times out at " + a.Name,
		stages.AwaitCap:      "waits for cap " + a.Name,
		stages.AwaitCheck:    "waits for checks of " + a.Name,
	}[a.Kind]
	if out == "" {
		out = "waits for " + a.Name
	}
	if a.Message != "" && a.Message != out {
		out += ": " + a.Message
	}
	if !a.Until.IsZero() {
		out += ", " + until(a.Until, now)
	}
	if hint != nil && hint(*a) != "" {
		out += "; " + hint(*a)
	}
	return out
}

// gateName is what a gate is called beside its stage or group.
func gateName(when approval.When, typ stages.TaskType) string {
	name := map[stages.TaskType]string{stages.Approval: "approval", stages.TimedWait: "wait", stages.ScheduledStart: "scheduled start", stages.CheckTask: "checks"}[typ]
	return name + " " + strings.ToLower(string(when))
}

// decided says who decided an approval and with which words, "" before anything was.
func decided(decisions []approval.Decision) string {
	var out []string
	for i := range decisions {
		text := verdicts[decisions[i].Verdict] + " by " + decisions[i].By.Name
		if c := decisions[i].Comment; c != "" {
			text += fmt.Sprintf(" %q", c)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

var verdicts = map[approval.Verdict]string{approval.Approve: "approved", approval.Reject: "rejected"}

// allowed says how much of a failure budget is used: most is -1 where it is without end.
func allowed(failed, most int) string {
	switch {
	case most < 0 && failed == 0:
		return ""
	case most < 0:
		return fmt.Sprintf("%d failed", failed)
	case most == 0:
		return fmt.Sprintf("%d failed, none allowed", failed)
	default:
		return fmt.Sprintf("%d failed of %d allowed", failed, most)
	}
}

// counts lists how many there are of each state, in the order of the states.
func counts[T comparable](order []T, of map[T]int, name func(T) string) string {
	var out []string
	for _, k := range order {
		if n := of[k]; n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, name(k)))
		}
	}
	return strings.Join(out, ", ")
}

var phases = map[stages.ClusterPhase]string{
	stages.Applying: "applying", stages.Settling: "settling", stages.Soaking: "soaking", stages.BackingOff: "backing off", stages.Measuring: "measured",
}

var phaseOrder = []stages.ClusterPhase{stages.Applying, stages.Settling, stages.Soaking, stages.Measuring, stages.BackingOff}
