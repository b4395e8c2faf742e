package step

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
	"github.com/slipway-dev/slipway/stages/planner"
)

// scriptEnv is the environment of a script: a fleet, a strategy, and runs.
type scriptEnv struct {
	clusters []placement.Cluster
	strategy stages.Strategy
	plan     *stages.Plan
	runs     map[string]*scriptRun
	cur      *scriptRun
	now      time.Time
	commands int
	// calendar is the calendar of every run. newCalendar reports whether no step has seen it.
	calendar    *scriptCalendar
	newCalendar bool
	// sent is called with every command; nil if no test needs that.
	sent func(stages.Command)
	// measured are the last answers that were delivered.
	measured []check.Measured
}

// scriptRun is a run with the plan it carries out.
type scriptRun struct {
	plan *stages.Plan
	r    Run
	last Ready
}

// scriptEpoch is the start of every script.
var scriptEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newScriptEnv() *scriptEnv { return &scriptEnv{runs: map[string]*scriptRun{}, now: scriptEpoch} }

// do carries out a block and returns its output.
func (w *scriptEnv) do(b scriptBlock) string {
	name, rest, _ := strings.Cut(b.directive, " ")
	a := parseArgs(rest)
	if d, err := time.ParseDuration(a.get("t", "0s")); err == nil {
		w.now = w.now.Add(d)
	}
	if r := w.runs[a.get("run", "")]; r != nil {
		w.cur = r
	}
	switch name {
	case "clusters":
		return w.setClusters(b.input)
	case "strategy":
		return w.setStrategy(b.input)
	case "plan":
		return w.makePlan(a)
	case "calendar":
		return w.setCalendar(b.input)
	case "start":
		return w.start(a)
	}
	if w.cur == nil {
		return "there is no run\n"
	}
	return w.onRun(name, a)
}

// onRun carries out a directive about the current run.
func (w *scriptEnv) onRun(name string, a scriptArgs) string {
	switch name {
	case "step":
		return w.step(stages.Input{Blocked: a.get("blocked", ""), Unwatched: slices.Contains(a.words, "unwatched")})
	case "observe":
		return w.observe(a)
	case "auto":
		return w.auto(a)
	case "measure":
		return w.measure(a)
	case "gone":
		return w.step(stages.Input{Gone: a.words})
	case "approve":
		return w.decide(approval.Approve, a)
	case "answer":
		return w.answer(a)
	case "reject":
		return w.decide(approval.Reject, a)
	case "rollback":
		return w.rollBack(a)
	case "resume", "takeback", "stop", "abort", "skip", "supersede", "retry", "bypass", "complete":
		return w.command(name, a)
	case "outline":
		return outlineText(w.cur.r.Outline(w.cur.plan))
	case "explain":
		return w.explain(a.word(0))
	case "waiting":
		return awaitedText(Waiting(w.cur.plan, &w.cur.r))
	case "state":
		return w.state()
	case "catchup":
		return w.catchUp(a)
	case "reload":
		w.cur.r = reloaded(w.cur.r)
		return ""
	default:
		return "there is no directive " + name + "\n"
	}
}

func (w *scriptEnv) setClusters(input string) string {
	w.clusters = nil
	for line := range strings.Lines(input) {
		a := parseArgs(line)
		w.clusters = append(w.clusters, placement.Cluster{Name: a.word(0), UID: "uid-" + a.word(0), Labels: a.named})
	}
	return ""
}

// setStrategy reads YAML, with durations such as 1m30s.
func (w *scriptEnv) setStrategy(input string) string {
	var doc any
	if err := yaml.Unmarshal([]byte(input), &doc); err != nil {
		return err.Error() + "\n"
	}
	b, err := json.Marshal(doc)
	if err == nil {
		w.strategy = stages.Strategy{}
		err = json.Unmarshal(b, &w.strategy)
	}
	if err != nil {
		return err.Error() + "\n"
	}
	return ""
}

// makePlan makes a plan from index=, default=, remove=a,b, unproven=a,b, and cluster=revision
// pairs.
func (w *scriptEnv) makePlan(a scriptArgs) string {
	index, _ := strconv.Atoi(a.get("index", "0"))
	rev := a.get("default", fmt.Sprintf("r%d", index))
	t := stages.Target{Placement: "web", Index: index, Snapshot: rev, Selection: "d0", Default: rev, Revision: map[string]string{}, Remove: map[string]string{}}
	for _, c := range w.clusters {
		if own, ok := a.named[c.Name]; ok {
			t.Revision[c.Name] = own
		}
	}
	if names := a.get("unproven", ""); names != "" {
		t.Unproven = map[string]bool{}
		for name := range strings.SplitSeq(names, ",") {
			t.Unproven[name] = true
		}
	}
	if names := a.get("remove", ""); names != "" {
		for name := range strings.SplitSeq(names, ",") {
			t.Remove[name] = ""
		}
	}
	return w.planTarget(t)
}

func (w *scriptEnv) planTarget(t stages.Target) string {
	picked := slices.DeleteFunc(slices.Clone(w.clusters), func(c placement.Cluster) bool {
		_, removed := t.Remove[c.Name]
		_, named := t.Revision[c.Name]
		return removed || t.Default == "" && !named
	})
	p, err := planner.Plan(w.strategy, t, picked)
	if err != nil {
		return "error: " + strings.ReplaceAll(strings.TrimSuffix(err.Error(), "]"), ", clusters", ",\n  clusters") + "\n"
	}
	w.plan = p
	return planText(p)
}

func planText(p *stages.Plan) string {
	var b strings.Builder
	for i := range p.Stages {
		st := &p.Stages[i]
		fmt.Fprintf(&b, "%s concurrency=%d failures=%d", st.Name, st.MaxConcurrency, st.MaxFailures)
		for _, g := range st.Gates {
			fmt.Fprintf(&b, " %s:%s", g.When, g.Type)
		}
		b.WriteString("\n")
		for _, g := range st.Groups {
			b.WriteString(" ")
			if g.Len == 0 {
				b.WriteString(" (no clusters)")
			}
			if g.Name != "" {
				fmt.Fprintf(&b, " %s concurrency=%d failures=%d", g.Name, g.MaxConcurrency, g.MaxFailures)
				for _, gate := range g.Gates {
					fmt.Fprintf(&b, " %s:%s", gate.When, gate.Type)
				}
				b.WriteString(":")
			}
			for _, c := range p.Clusters[g.First : g.First+g.Len] {
				b.WriteString(" " + c.Name)
				if c.Revision >= 0 {
					b.WriteString("@" + p.Revisions[c.Revision])
				}
			}
			b.WriteString("\n")
		}
	}
	for _, warning := range p.Warnings {
		b.WriteString("warning: " + warning + "\n")
	}
	return b.String()
}

// start makes a run of the plan and steps it.
func (w *scriptEnv) start(a scriptArgs) string {
	name := a.get("run", "run")
	hold := slices.Contains(a.words, "hold")
	w.cur = &scriptRun{plan: w.plan, r: NewRun(w.plan, name, "uid-"+name, approval.Identity{Name: a.get("by", "")}, hold, w.now)}
	w.runs[name] = w.cur
	return w.step(stages.Input{Blocked: a.get("blocked", "")})
}

func (w *scriptEnv) step(in stages.Input) string {
	in.Now = w.now
	if w.calendar != nil {
		c := *w.calendar
		c.plan = w.cur.plan
		in.Calendar = &c
	}
	in.NewCalendar, w.newCalendar = w.newCalendar, false
	for _, c := range in.Commands {
		if w.sent != nil {
			w.sent(c)
		}
	}
	w.cur.last = Step(w.cur.plan, w.cur.r, in)
	w.cur.r = w.cur.last.Run
	if err := w.cur.last.Err; err != nil {
		return "error: " + err.Error() + "\n"
	}
	return eventsText(w.cur.last.Events) + w.cur.readyText()
}

// observe delivers observations: pairs of a cluster and a word for its state.
func (w *scriptEnv) observe(a scriptArgs) string {
	var in stages.Input
	for i := 0; i+1 < len(a.words); i += 2 {
		o := w.cur.observation(a.words[i], a.words[i+1])
		if n, err := strconv.Atoi(a.get("attempt", "")); err == nil {
			o.Attempt = n
		}
		o.Message, o.Released, o.Altered = a.get("msg", o.Message), a.get("released", ""), a.get("altered", "")
		in.Observations = append(in.Observations, o)
	}
	return w.step(in)
}

// observation returns the report of a cluster in the state that the word names.
func (s *scriptRun) observation(cluster, word string) stages.Observation {
	o := stages.Observation{Cluster: cluster, Sent: true, Applied: true, Current: true, Healthy: true}
	if pos, ok := s.plan.Position(cluster); ok {
		if f := s.r.form.At(pos); f != nil {
			o.Attempt = f.Attempt
		}
		if r := s.plan.Clusters[pos].Revision; r >= 0 {
			o.Revision = s.plan.Revisions[r]
		}
	}
	switch word {
	case "healthy", "removed":
	case "unhealthy", "progressing":
		o.Healthy, o.Message = false, "0 of 1 replicas are ready"
	case "stale":
		o.Applied, o.Revision = false, "old"
	case "applied-stale":
		o.Revision = "old"
	case "behind":
		o.Current = false
	case "unchanged":
		o.Sent, o.Unchanged = false, true
	case "unchanged-unhealthy":
		o.Sent, o.Unchanged, o.Healthy, o.Message = false, true, false, "0 of 1 replicas are ready"
	case "sent":
		o = stages.Observation{Cluster: cluster, Attempt: o.Attempt, Sent: true}
	case "pointless":
		o = stages.Observation{Cluster: cluster, Attempt: o.Attempt, Skipped: true, Message: "at v2 already"}
	case "sent-pointless":
		o = stages.Observation{Cluster: cluster, Attempt: o.Attempt, Sent: true, Skipped: true, Message: "at v2 already"}
	case "failed":
		o = stages.Observation{Cluster: cluster, Attempt: o.Attempt, Sent: true, Failed: true, Message: "quota exceeded"}
	case "refused":
		o = stages.Observation{Cluster: cluster, Attempt: o.Attempt, Sent: true, Failed: true, Permanent: true, Message: "forbidden"}
	case "unreachable":
		o = stages.Observation{Cluster: cluster, Attempt: o.Attempt, Unreachable: true, Message: "no route to host"}
	case "lost":
		o = stages.Observation{Cluster: cluster, Attempt: o.Attempt, Sent: true, Unreachable: true, Message: "connection lost"}
	default:
		o = stages.Observation{Cluster: "?"}
	}
	return o
}

// auto makes the clusters in flight healthy, one after each interval each=, until none is in
// flight. With the word wake it then advances the clock to the next wake and continues.
func (w *scriptEnv) auto(a scriptArgs) string {
	each, _ := time.ParseDuration(a.get("each", "10s"))
	out := ""
	for range 1000 {
		in := stages.Input{}
		for _, act := range w.cur.last.Actions {
			if act.Type != stages.Ask && act.Type != stages.Measure {
				what := "healthy"
				if slices.Contains(strings.Split(a.get("fail", ""), ","), act.Cluster) {
					what = "failed"
				}
				in.Observations = append(in.Observations, w.cur.observation(act.Cluster, what))
			}
		}
		switch wake := w.cur.last.Wake; {
		case len(in.Observations) > 0:
			w.now = w.now.Add(each)
		case !wake.IsZero() && slices.Contains(a.words, "wake"):
			w.now = wake
		default:
			return out + w.cur.readyText()
		}
		w.step(in)
		out += eventsText(w.cur.last.Events)
	}
	return out + "it does not end\n"
}

// reloaded returns a run after it was stored and read again.
func reloaded(r Run) Run {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	var out Run
	if err := json.Unmarshal(b, &out); err != nil {
		panic(err)
	}
	return out
}

// respelled returns a run after a store has kept it as equivalent JSON, with other key order and
// spaces.
func respelled(r Run) Run {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	var tree any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		panic(err)
	}
	if b, err = json.MarshalIndent(tree, "", "\t"); err != nil {
		panic(err)
	}
	var out Run
	if err := json.Unmarshal(b, &out); err != nil {
		panic(err)
	}
	return out
}
