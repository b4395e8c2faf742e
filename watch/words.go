package watch

import (
	"fmt"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

// brief formats a duration for people: at most two units, and nothing below a second.
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

// length formats a duration without needless fractions: at most two units from a minute on.
func length(d time.Duration) string {
	if d >= time.Minute {
		return brief(d)
	}
	return d.Round(time.Millisecond).String()
}

// snapshotName names the snapshot with an index; a run that removes a placement has none.
func snapshotName(index int) string {
	if index < 0 {
		return "no snapshot"
	}
	return fmt.Sprintf("snapshot %d", index)
}

// clock formats a moment in the location of now, with its day if that differs.
func clock(at, now time.Time) string {
	at = at.In(now.Location())
	if at.YearDay() != now.YearDay() || at.Year() != now.Year() {
		return at.Format("Jan 2 15:04")
	}
	return at.Format("15:04:05")
}

// until formats an end and the time until then.
func until(at, now time.Time) string {
	if left := at.Sub(now); left > 0 {
		return "until " + clock(at, now) + ", in " + brief(left)
	}
	return "until " + clock(at, now)
}

// waitingFor describes a reason for waiting of a run, with the terms of [step.Waiting], and its
// hint.
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

// gateName returns the name of a gate beside its stage or group.
func gateName(when approval.When, typ stages.TaskType) string {
	name := map[stages.TaskType]string{stages.Approval: "approval", stages.TimedWait: "wait", stages.ScheduledStart: "scheduled start", stages.CheckTask: "checks"}[typ]
	return name + " " + strings.ToLower(string(when))
}

// decided lists the deciders of an approval with their comments, "" if there are none.
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

// allowed describes the used part of a failure budget: most is -1 if it is unlimited.
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

// counts lists the number of each state, in the order of the states.
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
