package oam_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/formats/oam"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
	"github.com/slipway-dev/slipway/stages/step"
)

var update = flag.Bool("update", false, "rewrite the expected output of the scripts")

// TestScripts runs the files under testdata/scripts: blocks of a directive, lines of
// input, a line of dashes and the output that is expected. With -update they are
// written again.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/scripts/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { runScript(t, file) })
	}
}

func runScript(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	w := &workflowEnv{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	for _, block := range strings.SplitAfter(string(text), "\n====\n") {
		head, want, found := strings.Cut(block, "\n----\n")
		if !found {
			out.WriteString(block)
			continue
		}
		got := w.do(head) + "====\n"
		if !*update && got != want {
			t.Errorf("%s: %s\n%s", file, head, cmp.Diff(want, got))
		}
		out.WriteString(head + "\n----\n" + got)
	}
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// workflowEnv is an application with the run of its newest release, driven by
// [step.Step] alone.
type workflowEnv struct {
	docs     oam.Documents
	clusters []placement.Cluster
	now      time.Time
	rec      oam.Record
	runs     int
	commands int
	options  oam.Options
}

// do carries out a block: comments, a directive with its arguments, and its input.
func (w *workflowEnv) do(block string) string {
	lines := strings.Split(block, "\n")
	for len(lines) > 1 && (strings.HasPrefix(lines[0], "#") || lines[0] == "") {
		lines = lines[1:]
	}
	words := strings.Fields(lines[0])
	input := strings.Join(lines[1:], "\n")
	args := words[1:]
	if len(args) > 0 {
		if d, err := time.ParseDuration(args[len(args)-1]); err == nil {
			w.now = w.now.Add(d)
			args = args[:len(args)-1]
		}
	}
	switch words[0] {
	case "clusters":
		return w.setClusters(input)
	case "suspend-on-failure":
		w.options.SuspendOnFailure = true
		return ""
	case "apply":
		return w.apply(input)
	case "reload":
		return w.reload()
	case "supersede":
		return w.step(stages.Input{Commands: []stages.Command{w.command(stages.Command{Verb: stages.Supersede, Message: "another"})}})
	case "step":
		return w.step(stages.Input{})
	case "status":
		return w.statusText(len(args) > 0)
	case "suspend", "resume", "terminate":
		return w.operate(words[0], strings.Join(args, ""))
	case "reject":
		return w.reject()
	case "rollback":
		return w.rollback()
	case "restart":
		return w.restart(strings.Join(args, ""))
	default:
		return w.observe(words)
	}
}

func (w *workflowEnv) setClusters(input string) string {
	w.clusters = nil
	for line := range strings.Lines(input) {
		words := strings.Fields(line)
		c := placement.Cluster{Name: words[0], Labels: map[string]string{}}
		for _, word := range words[1:] {
			key, value, _ := strings.Cut(word, "=")
			c.Labels[key] = value
		}
		w.clusters = append(w.clusters, c)
	}
	return ""
}

// apply reads documents, and starts a run if the application needs one.
func (w *workflowEnv) apply(input string) string {
	docs, err := oam.Read(strings.NewReader(input), "app.yaml")
	if err != nil {
		return err.Error() + "\n"
	}
	if len(docs.Workflows) == 0 && len(docs.Policies) == 0 {
		docs.Workflows, docs.Policies = w.docs.Workflows, w.docs.Policies
	}
	w.docs = docs
	rel, err := oam.Publish(docs, docs.Applications[0], w.clusters, w.options)
	if err != nil {
		return err.Error() + "\n"
	}
	newest := ""
	if w.rec.Release != nil {
		newest = w.rec.Release.Version
	}
	if !rel.IsDue(newest) {
		return "nothing to do\n"
	}
	return w.begin(rel)
}

// begin creates a run of a release, and replaces an active one.
func (w *workflowEnv) begin(rel oam.Release) string {
	out := ""
	if w.rec.Run != nil && !w.rec.Run.IsEnded() {
		out = w.step(stages.Input{Commands: []stages.Command{w.command(stages.Command{Verb: stages.Supersede, Message: rel.Run.Name})}})
	}
	b, err := json.Marshal(rel)
	if err == nil {
		rel = oam.Release{}
		err = json.Unmarshal(b, &rel)
	}
	if err != nil {
		return err.Error() + "\n"
	}
	var picked []placement.Cluster
	for _, c := range w.clusters {
		for _, name := range rel.Placement.Policy.ClusterNames {
			if c.Name == name {
				picked = append(picked, c)
			}
		}
	}
	index := w.runs
	if rel.Run.Index != nil {
		index = *rel.Run.Index
	}
	target := stages.Target{Placement: rel.Placement.Name, Index: index, Snapshot: "s", Selection: "d", Default: "r"}
	plan, err := planner.Plan(rel.Run.Strategy, target, picked)
	if err != nil {
		return err.Error() + "\n"
	}
	w.runs++
	run := step.NewRun(plan, rel.Run.Name, fmt.Sprintf("uid-%d", w.runs), approval.Identity{Name: "ann"}, false, w.now)
	w.rec = oam.Record{Release: &rel, Run: &run, Plan: plan}
	return out + "run " + run.Name + "\n" + w.step(stages.Input{})
}

func (w *workflowEnv) command(c stages.Command) stages.Command {
	w.commands++
	c.ID, c.At = fmt.Sprintf("c%d", w.commands), w.now
	return c
}

// step steps the run and returns the clusters in flight and the refusals.
func (w *workflowEnv) step(in stages.Input) string {
	in.Now = w.now
	ready := step.Step(w.rec.Plan, *w.rec.Run, in)
	w.rec.Run = &ready.Run
	out := ""
	for _, e := range ready.Events {
		if e.Type == stages.CommandRefused || e.Type == stages.RunSuperseded {
			out += strings.TrimSpace(string(e.Type)+" "+e.Command+" "+e.Message) + "\n"
		}
	}
	var acts []string
	for _, a := range ready.Actions {
		if a.Type != stages.Ask {
			acts = append(acts, fmt.Sprintf("%s#%d", a.Cluster, a.Attempt))
		}
	}
	if len(acts) > 0 {
		out += "deploying " + strings.Join(acts, " ") + "\n"
	}
	if !ready.Wake.IsZero() {
		out += "next at " + ready.Wake.Sub(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)).String() + "\n"
	}
	return out
}

// reload stores the run and reads it, as a controller that starts again does.
func (w *workflowEnv) reload() string {
	b, err := json.Marshal(w.rec.Run)
	var run step.Run
	if err == nil {
		err = json.Unmarshal(b, &run)
	}
	if err != nil {
		return err.Error() + "\n"
	}
	w.rec.Run = &run
	return w.step(stages.Input{Unwatched: true})
}

// observe reads pairs of a cluster and its state.
func (w *workflowEnv) observe(words []string) string {
	var in stages.Input
	for i := 0; i+1 < len(words); i += 2 {
		o := stages.Observation{Cluster: words[i], Sent: true}
		for _, f := range w.rec.Run.Form(runstate.Key{}).InFlight {
			if f.Attempt != 0 && w.rec.Plan.Clusters[f.Pos].Name == words[i] {
				o.Attempt = f.Attempt
			}
		}
		switch words[i+1] {
		case "healthy":
			o.Applied, o.Revision, o.Current, o.Healthy = true, "r", true, true
		case "unhealthy":
			o.Applied, o.Revision, o.Current, o.Message = true, "r", true, "0 of 1 replicas are ready"
		case "fails":
			o.Failed, o.Message = true, "quota exceeded"
		default:
			return "there is no directive " + strings.Join(words, " ") + "\n"
		}
		in.Observations = append(in.Observations, o)
	}
	return w.step(in)
}

func (w *workflowEnv) operate(verb, step string) string {
	by := approval.Identity{Name: "ann"}
	var op oam.Operation
	var err error
	switch verb {
	case "suspend":
		op, err = w.rec.Suspend(by)
	case "resume":
		op, err = w.rec.Resume(step, by)
	default:
		op, err = w.rec.Terminate(by)
	}
	if err != nil {
		return "Error: " + err.Error() + "\n"
	}
	return op.Message + "\n" + w.carryOut(op)
}

func (w *workflowEnv) carryOut(op oam.Operation) (out string) {
	var in stages.Input
	for _, c := range op.Commands {
		if c.Verb == stages.Decide { // as the engine stores it
			d := *c.Decision
			d.By, d.At = c.By, w.now
			c = stages.Command{Verb: stages.Decide, By: c.By, Decision: &d}
		}
		in.Commands = append(in.Commands, w.command(c))
	}
	return w.step(in)
}

// reject rejects the approval that the workflow requests.
func (w *workflowEnv) reject() string {
	op, err := w.rec.Resume("", approval.Identity{Name: "bob"})
	if err != nil {
		return "Error: " + err.Error() + "\n"
	}
	for _, c := range op.Commands {
		if c.Verb == stages.Decide {
			c.Decision.Verdict = approval.Reject
		}
	}
	return w.carryOut(op)
}

func (w *workflowEnv) restart(step string) string {
	rel, op, err := w.rec.Restart(step, w.runs+1)
	if err != nil {
		return "Error: " + err.Error() + "\n"
	}
	return op.Message + "\n" + w.begin(rel)
}

// rollback reports the rollback of the workflow and its stages, if all clusters had a previous
// content.
func (w *workflowEnv) rollback() string {
	if w.rec.Run.Form(runstate.Key{}).RollbackRequest == nil {
		return "nothing is taken back\n"
	}
	previous := map[string]stages.Previous{}
	for _, c := range w.clusters {
		previous[c.Name] = stages.Previous{Snapshot: "s0", Revision: "before"}
	}
	plan, err := step.RollBack(w.rec.Plan, w.rec.Run, previous)
	if err != nil {
		return "Error: " + err.Error() + "\n"
	}
	out := fmt.Sprintf("taken back, ended=%t\n", w.rec.Run.IsEnded())
	for pos := range plan.Clusters {
		stage, _ := plan.StageOf(pos)
		out += "  " + plan.Stages[stage].Name + " " + plan.Clusters[pos].Name + "\n"
	}
	for _, st := range plan.Stages {
		for _, g := range st.Gates {
			out += "  " + st.Name + " asks " + string(g.When) + "\n"
		}
	}
	return out
}

// statusText returns the visible status: the application, its services and its steps.
func (w *workflowEnv) statusText(withTimes bool) string {
	s := oam.NewStatus(w.rec)
	var b strings.Builder
	fmt.Fprintf(&b, "%s: workflow %s", s.Phase, s.Workflow.Phase)
	for _, f := range []struct {
		is   bool
		word string
	}{{s.Workflow.Suspend, "suspend"}, {s.Workflow.Terminated, "terminated"}, {s.Workflow.Finished, "finished"}} {
		if f.is {
			b.WriteString(" " + f.word)
		}
	}
	b.WriteString("\n")
	for _, step := range s.Workflow.Steps {
		b.WriteString("  " + stepText(step.StepStatus, withTimes))
		for _, sub := range step.SubSteps {
			b.WriteString("    " + stepText(sub, withTimes))
		}
	}
	for _, service := range s.Services {
		fmt.Fprintf(&b, "  service %s on %s healthy=%t %s\n", service.Name, service.Cluster, service.Healthy, service.Message)
	}
	return strings.ReplaceAll(b.String(), " \n", "\n")
}

func stepText(s oam.StepStatus, withTimes bool) string {
	out := strings.TrimSpace(fmt.Sprintf("%s %s %s", s.Name, s.Phase, s.Reason))
	if s.Message != "" {
		out += fmt.Sprintf(" %q", s.Message)
	}
	if withTimes && s.FirstExecuteTime != nil {
		out += " " + s.FirstExecuteTime.Format("15:04:05") + " to " + s.LastExecuteTime.Format("15:04:05")
	}
	return out + "\n"
}
