package step

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
	"github.com/slipway-dev/slipway/stages/planner"
)

func (w *scriptEnv) decide(v approval.Verdict, a scriptArgs) string {
	reqs := Requests(w.cur.plan, &w.cur.r)
	b := approval.Binding{
		RunUID: w.cur.r.UID, Stage: a.word(0), Group: a.get("group", ""), When: approval.When(a.get("when", "After")),
		Attempt: 1, Plan: w.cur.plan.Digest,
	}
	for _, r := range reqs {
		if r.Stage == b.Stage && r.Group == b.Group && r.When == b.When {
			b = r.Binding
		}
	}
	if n, err := strconv.Atoi(a.get("attempt", "")); err == nil {
		b.Attempt = n
	}
	b.RunUID = a.get("uid", b.RunUID)
	b.Plan = a.get("plan", b.Plan)
	by := approval.Identity{Name: a.get("by", "ann")}
	if groups := a.get("groups", ""); groups != "" {
		by.Groups = strings.Split(groups, ",")
	}
	d := approval.Decision{Verdict: v, By: by, At: w.now, Binding: b, Comment: a.get("msg", ""), PointInTime: slices.Contains(a.words, "now")}
	return w.step(stages.Input{Commands: []stages.Command{{ID: w.id(a), Verb: stages.Decide, By: by, Decision: &d}}})
}

// answer lets authorities answer the open request of a stage for a point in time. by= names them,
// age= is the age of their answer, and shown= the number of decisions that they were shown.
func (w *scriptEnv) answer(a scriptArgs) string {
	var in stages.Input
	for _, r := range Requests(w.cur.plan, &w.cur.r) {
		if r.Stage != a.word(0) || r.Group != a.get("group", "") || r.When != approval.When(a.get("when", "After")) {
			continue
		}
		if n, err := strconv.Atoi(a.get("shown", "")); err == nil {
			r.Decisions = r.Decisions[:n]
		}
		age, _ := time.ParseDuration(a.get("age", "0s"))
		for by := range strings.SplitSeq(a.get("by", ""), ",") {
			in.Answers = append(in.Answers, stages.Answer{Request: r, Decision: approval.Decision{
				Verdict: approval.Verdict(a.get("verdict", "Approve")), By: approval.Identity{Name: by, Groups: strings.Split(a.get("groups", ""), ",")},
				At: w.now.Add(-age), Comment: a.get("msg", ""), PointInTime: a.get("stands", "") == "",
			}})
		}
	}
	return w.step(in)
}

// measure answers the questions of the last step. The words are pairs of a check, or CHECK/CLUSTER,
// and its measurement: numbers separated by commas, empty, or down. age= is the age of the
// question, and number= the number of the measurement. The word again delivers the last answers
// once more.
func (w *scriptEnv) measure(a scriptArgs) string {
	var in stages.Input
	age, _ := time.ParseDuration(a.get("age", "0s"))
	for i := 0; i+1 < len(a.words); i += 2 {
		name, cluster, _ := strings.Cut(a.words[i], "/")
		for _, act := range w.cur.last.Actions {
			if q := act.Measure; q != nil && q.Name == name && q.Cluster == cluster {
				in.Measured = append(in.Measured, w.answerOf(q, a.words[i+1], age, a.get("number", "")))
			}
		}
	}
	if slices.Contains(a.words, "again") {
		in.Measured = w.measured
	}
	w.measured = in.Measured
	return w.step(in)
}

func (w *scriptEnv) answerOf(q *check.Question, word string, age time.Duration, number string) check.Measured {
	m := check.Measured{Where: q.Where, Query: q.Check.Query, At: w.now.Add(-age)}
	if n, err := strconv.Atoi(number); err == nil {
		m.Number = n
	}
	switch word {
	case "empty":
	case "down":
		m.Err = "connection refused"
	default:
		for text := range strings.SplitSeq(word, ",") {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				m.Err = err.Error()
			}
			m.Values = append(m.Values, v)
		}
	}
	return m
}

// id returns the ID of the next command, or the ID in the script.
func (w *scriptEnv) id(a scriptArgs) string {
	w.commands++
	return a.get("id", fmt.Sprintf("c%d", w.commands))
}

func (w *scriptEnv) command(name string, a scriptArgs) string {
	c := stages.Command{ID: w.id(a), By: approval.Identity{Name: a.get("by", "")}, At: w.now, Message: a.get("msg", "")}
	switch name {
	case "resume":
		c.Verb = stages.Start
	case "takeback":
		c.Verb, c.Name = stages.RequestRollback, a.get("as", "")
	case "stop":
		c.Verb = stages.Stop
	case "abort":
		c.Verb = stages.Abort
	case "supersede":
		c.Verb, c.Message = stages.Supersede, a.get("for", "other")
	case "complete":
		c.Verb, c.Name = stages.CompleteGate, a.word(0)
	case "retry":
		c.Verb, c.Only = stages.Retry, stages.Only(a.get("only", ""))
	case "bypass":
		c.Verb = stages.BypassWindows
		if d, err := time.ParseDuration(a.get("until", "")); err == nil {
			c.Until = scriptEpoch.Add(d)
		}
	case "skip":
		c.Verb, c.Name = stages.Skip, a.word(1)
		c.Scope = map[string]stages.SkipScope{"cluster": stages.SkipCluster, "group": stages.SkipGroup, "stage": stages.SkipStage, "wait": stages.SkipAfterWait}[a.word(0)]
	}
	return w.step(stages.Input{Commands: []stages.Command{c}, Blocked: a.get("blocked", "")})
}

// catchUp plans a run for the clusters that this run missed and for joined=a,b.
func (w *scriptEnv) catchUp(a scriptArgs) string {
	var missed []string
	for pos, state := range w.cur.r.States(w.cur.plan) {
		if state == stages.Skipped || state == stages.Failed {
			missed = append(missed, w.cur.plan.Clusters[pos].Name)
		}
	}
	joined := map[string]string{}
	if names := a.get("joined", ""); names != "" {
		for name := range strings.SplitSeq(names, ",") {
			joined[name] = w.cur.plan.Snapshot
		}
	}
	t, err := planner.CatchUp(w.cur.plan, missed, joined)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	return w.planTarget(t)
}
