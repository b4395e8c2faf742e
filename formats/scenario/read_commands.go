package scenario

import (
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
)

// verbs are the verbs of commands, with the fields of each besides at, do, by and reason;
// required fields have a !.
func verbs() map[string][]string {
	return map[string][]string{
		"start":         nil,
		"stop":          nil,
		"skip":          {"target!"},
		"approve":       {"stage!", "group", "groups", "by!"},
		"reject":        {"stage!", "group", "groups", "by!"},
		"retry":         {"only"},
		"abort":         nil,
		"complete-gate": {"stage", "group"},
		"bypass":        {"for!", "by!", "reason!"},
		"rollback":      nil,
	}
}

// command is an entry of commands during reading.
type command struct {
	at                         time.Duration
	do, by, reason             string
	target, stage, group, only string
	groups                     []string
	long                       time.Duration
	said                       map[string]value
	targeted                   value
}

// command reads an entry of commands.
func (r *reader) command(v value) {
	c := command{said: map[string]value{}}
	says := func(name string, read func(value)) func(value) {
		return func(v value) {
			c.said[name] = v
			read(v)
		}
	}
	ok := v.Object(fields{
		"at": func(v value) { c.at = v.Duration() },
		"do": func(v value) {
			verb := yamldoc.OneOf(v, "start", "stop", "skip", "approve", "reject", "retry", "abort", "complete-gate", "bypass", "rollback")
			if v.OK() {
				c.do = verb
			}
		},
		"by":     says("by", func(v value) { c.by = v.NonEmpty() }),
		"reason": says("reason", func(v value) { c.reason = v.NonEmpty() }),
		"target": says("target", func(v value) { c.targeted, c.target = v, v.NonEmpty() }),
		"stage":  says("stage", func(v value) { c.stage = v.NonEmpty() }),
		"group":  says("group", func(v value) { c.group = v.NonEmpty() }),
		"groups": says("groups", func(v value) { c.groups = yamldoc.List(v, value.NonEmpty) }),
		"only":   says("only", func(v value) { c.only = yamldoc.OneOf(v, "failed", "skipped") }),
		"for":    says("for", func(v value) { c.long = v.Period() }),
	}, "at", "do")
	if !ok || c.do == "" {
		return
	}
	c.check(v)
	r.out.Environment.Orders = append(r.out.Environment.Orders, simulate.Order{At: c.at, Command: c.command(r.start())})
}

// check reports fields that the command does not have, and missing required fields.
func (c *command) check(v value) {
	has := verbs()[c.do]
	for _, name := range []string{"target", "stage", "group", "groups", "only", "for"} {
		at, said := c.said[name]
		if said && !slices.Contains(has, name) && !slices.Contains(has, name+"!") {
			at.Fail("is not for %s, which has %s", c.do, allOf(has))
		}
	}
	for _, name := range has {
		name, needs := strings.CutSuffix(name, "!")
		if _, said := c.said[name]; needs && !said {
			v.Place(name).Fail("is required for %s", c.do)
		}
	}
	if c.do == "complete-gate" && c.stage == "" && c.group == "" {
		v.Fail("must say which gate: write stage, group or both")
	}
	if c.target != "" {
		c.checkTarget()
	}
}

func allOf(has []string) string {
	return strings.ReplaceAll(strings.Join(append([]string{"at", "do", "by", "reason"}, slices.DeleteFunc(slices.Clone(has), func(n string) bool {
		return n == "by!" || n == "reason!"
	})...), ", "), "!", "")
}

// checkTarget checks the form of a skip's target; the run checks that the target exists.
func (c *command) checkTarget() {
	kind, name, found := strings.Cut(c.target, ":")
	scopes := []string{string(stages.SkipCluster), string(stages.SkipGroup), string(stages.SkipStage), string(stages.SkipAfterWait)}
	if !found || name == "" || !slices.Contains(scopes, kind) {
		c.targeted.Fail("must be %s and a name, for example Group:g2, not %q", strings.Join(scopes, ":, ")+":", yamldoc.Clip(c.target))
	}
}

// command returns the command for a run that starts at a moment.
func (c *command) command(start time.Time) stages.Command {
	out := stages.Command{By: approval.Identity{Name: c.by, Groups: c.groups}, Message: c.reason}
	switch c.do {
	case "start":
		out.Verb = stages.Start
	case "stop":
		out.Verb = stages.Stop
	case "skip":
		scope, name, _ := strings.Cut(c.target, ":")
		out.Verb, out.Scope, out.Name = stages.Skip, stages.SkipScope(scope), name
	case "approve", "reject":
		out.Verb, out.Decision = stages.Decide, c.decision(out.By)
	case "retry":
		out.Verb, out.Only = stages.Retry, c.retried()
	case "abort":
		out.Verb = stages.Abort
	case "rollback":
		out.Verb = stages.RequestRollback
	case "complete-gate":
		out.Verb, out.Name = stages.CompleteGate, c.gate()
	default:
		out.Verb, out.Until = stages.BypassWindows, start.Add(c.at+c.long)
	}
	return out
}

func (c *command) decision(by approval.Identity) *approval.Decision {
	d := &approval.Decision{
		Verdict: approval.Approve, By: by, Comment: c.reason,
		Binding: approval.Binding{Stage: c.stage, Group: c.group},
	}
	if c.do == "reject" {
		d.Verdict = approval.Reject
	}
	return d
}

// retried returns which clusters a Retry takes; empty for both.
func (c *command) retried() stages.Only {
	switch c.only {
	case "failed":
		return stages.OnlyFailed
	case "skipped":
		return stages.OnlySkipped
	default:
		return ""
	}
}

// gate returns the name of a gate for a CompleteGate.
func (c *command) gate() string {
	switch {
	case c.stage == "":
		return c.group
	case c.group == "":
		return c.stage
	default:
		return c.stage + "/" + c.group
	}
}

// start returns the start of the run.
func (r *reader) start() time.Time {
	if v, ok := r.root.Get("start"); ok {
		if t, err := time.Parse(time.RFC3339, v.Node.Value); err == nil {
			return t
		}
	}
	return simulate.DefaultStart()
}
