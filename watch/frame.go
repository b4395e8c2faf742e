package watch

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// Frame draws a model as at most height lines of at most width columns, without a line break at
// the end. The documentation of the package describes the content of a small frame. A width or a
// height below 1 gives nothing. The cost grows with the stages and groups, the clusters in flight
// and the exceptions, not with the fleet.
func Frame(m Model, width, height int, s Style) string {
	if width < 1 || height < 1 || m.Status.Plan == nil {
		return ""
	}
	d := drawing{Style: s, m: &m, p: m.Status.Plan, r: &m.Status.Run, width: width, height: height}
	d.outline = d.r.Outline(d.p)
	footer := make([]string, 0, len(m.Footer))
	for i, line := range m.Footer {
		of := plain
		if i == len(m.Footer)-1 {
			of = faint
		}
		footer = append(footer, d.paint(of, line))
	}
	return s.frame(fit(d.blocks(), height-len(footer)), footer, width, height)
}

// The order of lists when lines are distributed.
const (
	firstWaits = iota
	firstFailures
	firstFlying
	firstRetrying
	firstGates
	firstToCome
)

func byFirst(lists []*list) {
	slices.SortStableFunc(lists, func(a, b *list) int { return a.first - b.first })
}

// drawing is a frame that is being drawn.
type drawing struct {
	Style
	m             *Model
	p             *stages.Plan
	r             *step.Run
	outline       stages.Outline
	width, height int
	// names is the width of the column of names.
	names int
}

func (d *drawing) blocks() []block {
	out := []block{{line: d.title()}, {line: d.total()}}
	if reason := d.reason(); reason != "" {
		out = append(out, block{line: "  " + reason})
	}
	from, to := d.stagesShown()
	d.measure(from, to)
	if from > 0 {
		out = append(out, block{line: d.mark(stages.Completed) + d.paint(faint, fmt.Sprintf(" %d stages before", from))})
	}
	if d.r.Form(runstate.Key{}).Stage >= to || !d.isUnderWay() {
		out = append(out, d.waits("  "))
	}
	for i := from; i < to; i++ {
		out = append(out, d.stage(i)...)
	}
	if left := len(d.p.Stages) - to; left > 0 {
		out = append(out, block{line: d.mark(stages.NotStarted) + d.paint(faint, fmt.Sprintf(" %d stages to come", left))})
	}
	return out
}

// isUnderWay reports whether the run has a current stage to contain its reasons for waiting.
func (d *drawing) isUnderWay() bool {
	return (d.outline.Run == stages.Running || d.outline.Run == stages.Pending && d.r.State == stages.Running || d.r.State == stages.Stopping) &&
		d.r.Form(runstate.Key{}).Stage < len(d.outline.Stages)
}

// stagesShown returns the stages with their own line: those around the current one.
func (d *drawing) stagesShown() (from, to int) {
	n := len(d.outline.Stages)
	most := max(3, d.height/3)
	if n <= most {
		return 0, n
	}
	from = min(max(0, d.r.Form(runstate.Key{}).Stage-(most-1)/2), n-most)
	return from, from + most
}

// measure finds the width of the column of names.
func (d *drawing) measure(from, to int) {
	const widest = 24
	for i := from; i < to; i++ {
		d.names = max(d.names, len(d.p.Stages[i].Name))
		for j := range d.p.Stages[i].Groups {
			d.names = max(d.names, len(d.p.Stages[i].Groups[j].Name)+2)
		}
	}
	d.names = min(d.names, widest, max(8, d.width/4))
}

func (d *drawing) title() string {
	text := d.paint(strong, d.r.Name)
	if t := d.m.Status.Title; t != "" {
		text += " " + d.paint(plain, t)
	}
	text += d.paint(plain, fmt.Sprintf("  %s, %s", d.m.shown(d.p.Placement), snapshotName(d.p.Index)))
	if back := d.p.Rollback; back != nil {
		text += d.paint(held, ", rolls back "+d.m.shown(back.Run))
	}
	text += "  " + d.paint(looks[d.outline.Run].ink, string(d.outline.Run))
	switch started, ended := d.r.Started.Time(), d.r.Ended.Time(); {
	case started.IsZero():
	case d.r.IsEnded() && !ended.IsZero():
		text += d.paint(plain, " in "+brief(ended.Sub(started))+", at "+clock(ended, d.m.Now))
	default:
		text += d.paint(plain, " for "+brief(d.m.Now.Sub(started)))
	}
	return text
}

// total draws the line of the whole run, with its expected end.
func (d *drawing) total() string {
	var all stages.GroupOutline
	for i := range d.outline.Stages {
		sum := sumOf(d.outline.Stages[i].Groups)
		all.Completed += sum.Completed
		all.Failed += sum.Failed
		all.Skipped += sum.Skipped
		all.InFlight += sum.InFlight
	}
	all.Clusters = d.p.Len()
	out := d.bar(max(4, d.width/4), &all) + d.paint(strong, fmt.Sprintf(" %d of %d", all.Completed, all.Clusters))
	if text := d.ends(); text != "" {
		out += d.paint(strong, ", "+text)
	}
	parts := []string{out}
	for _, part := range [...]struct {
		n    int
		ink  ink
		what string
	}{{all.Failed, bad, "failed"}, {all.InFlight, busy, "in flight"}, {all.Skipped, faint, "skipped"}} {
		if part.n > 0 {
			parts = append(parts, d.paint(part.ink, fmt.Sprintf("%d %s", part.n, part.what)))
		}
	}
	return strings.Join(parts, d.paint(plain, ", "))
}

// ends returns the forecast end of the run, "" if it is unknown. The forecast assumes immediate
// answers of people, so while the run waits for a person, the text gives the duration after the
// answer.
func (d *drawing) ends() string {
	end, now := d.m.End, d.m.Now
	if end.IsZero() || d.r.IsEnded() {
		return ""
	}
	left, person := end.Sub(now), ""
	for _, a := range waits(&d.m.Status) {
		switch a.Kind {
		case stages.AwaitDecision:
			person = "the approval"
		case stages.AwaitStart:
			person = "the start"
		default:
		}
	}
	switch {
	case person != "" && left < time.Second:
		return "ends with " + person
	case person != "":
		return "ends about " + brief(left) + " after " + person
	case left < time.Second:
		return "was expected to end at " + clock(end, now)
	default:
		return "ends about " + clock(end, now) + ", in " + brief(left)
	}
}

// rollback describes the progress of the run's rollback and its reason; "" if none was requested.
func (d *drawing) rollback() string {
	back, why := &d.m.Rollback, ""
	if u := d.r.Form(runstate.Key{}).RollbackRequest; u != nil && u.Message != "" {
		why = ": " + u.Message
	}
	switch {
	case back.Refused != "":
		return d.paint(bad, "not rolled back: "+back.Refused)
	case back.Pending && back.By != "":
		return d.paint(held, "run "+back.By+" is about to roll it back"+why)
	case back.By == "" && d.r.Form(runstate.Key{}).RollbackRequest == nil:
		return ""
	case back.By == "" && d.r.Form(runstate.Key{}).RollbackRequest.Run != "":
		return d.paint(held, "run "+d.r.Form(runstate.Key{}).RollbackRequest.Run+" is going to roll it back"+why)
	case back.By == "":
		return d.paint(held, "it is going to be rolled back"+why)
	case back.State == stages.Completed:
		return d.paint(bad, "rolled back by run "+back.By+why)
	case back.State == "":
		return d.paint(bad, "rolled back by run "+back.By+", which was deleted"+why)
	case isOver(back):
		return d.paint(bad, "run "+back.By+", which rolls it back, is "+string(back.State)+why)
	default:
		return d.paint(held, "run "+back.By+" rolls it back and is "+string(back.State)+why)
	}
}

// reason returns why the run is in its state.
func (d *drawing) reason() string {
	text := d.rollback()
	switch {
	case text != "":
		return text
	case d.r.Form(runstate.Key{}).Closing != nil:
		return d.paint(bad, string(d.r.Form(runstate.Key{}).Closing.State)+" once what runs always has run: "+d.r.Form(runstate.Key{}).Closing.Reason)
	case d.r.IsEnded() && d.r.Reason != "":
		return d.paint(looks[d.r.State].ink, d.r.Reason)
	case d.r.State == stages.Stopping && d.r.Reason != "":
		return d.paint(held, d.r.Reason)
	default:
		return ""
	}
}

func sumOf(groups []stages.GroupOutline) (sum stages.GroupOutline) {
	for i := range groups {
		g := &groups[i]
		sum.Clusters += g.Clusters
		sum.InFlight += g.InFlight
		sum.Completed += g.Completed
		sum.Failed += g.Failed
		sum.Skipped += g.Skipped
	}
	return sum
}

// stage draws a stage; the current one with its content.
func (d *drawing) stage(i int) []block {
	st, o, run := &d.p.Stages[i], &d.outline.Stages[i], &d.r.Form(runstate.Key{}).Stages[i]
	sum := sumOf(o.Groups)
	line := d.row("", st.Name, o.State, &sum, st.MaxFailures) + d.took(o.Started, o.Ended)
	current := i == d.r.Form(runstate.Key{}).Stage && d.isUnderWay()
	if st.Remove {
		line += d.paint(faint, "  cleaned")
	}
	if !current {
		line += d.paint(faint, d.outcome(run.Gates))
	}
	out := []block{{line: line}}
	if current {
		out = append(out, d.gates("  ", o.Gates, run.Gates, approval.Before), d.waits("  "))
	}
	out = append(out, d.failures("  ", st.Groups[0].First, st.End()-1))
	if !current {
		return append(out, d.flying("  ", st.Groups[0].First, st.End()-1)...)
	}
	if len(st.Groups) == 1 && st.Groups[0].Name == "" {
		out = append(out, d.flying("  ", st.Groups[0].First, st.End()-1)...)
	} else {
		out = append(out, d.groups(st, o, run)...)
	}
	return append(out, d.gates("  ", o.Gates, run.Gates, approval.After))
}

// row is a line with the state of a stage or a group and its bar.
func (d *drawing) row(indent, name string, state stages.State, sum *stages.GroupOutline, most int) string {
	out := indent + d.mark(state) + " " + d.paint(plain, d.pad(name, d.names-len(indent))) + " " + d.state(state, 10) + " "
	if sum.Clusters > 0 {
		out += d.bar(max(4, d.width/8), sum)
		out += d.paint(plain, fmt.Sprintf(" %d of %d", sum.Completed, sum.Clusters))
	}
	if sum.Skipped > 0 {
		out += d.paint(faint, fmt.Sprintf(", %d skipped", sum.Skipped))
	}
	if text := allowed(sum.Failed, most); text != "" && (sum.Failed > 0 || state == stages.Running && most > 0) {
		out += d.paint(plain, ", ") + d.paint(map[bool]ink{true: bad, false: plain}[sum.Failed > 0], text)
	}
	return out
}

// took returns the duration of a stage.
func (d *drawing) took(started, ended time.Time) string {
	if ended.IsZero() && d.r.IsEnded() {
		ended = d.r.Ended.Time()
	}
	switch {
	case started.IsZero():
		return ""
	case ended.IsZero():
		return d.paint(faint, ", for "+brief(d.m.Now.Sub(started)))
	default:
		return d.paint(faint, ", in "+brief(ended.Sub(started)))
	}
}

// outcome lists on one line the deciders of the gates of a stage that is not the current one.
func (d *drawing) outcome(gates []runstate.Gate) (out string) {
	for _, v := range []approval.Verdict{approval.Approve, approval.Reject} {
		var by []string
		for i := range gates {
			for j := range gates[i].Decisions {
				if x := &gates[i].Decisions[j]; x.Verdict == v && !slices.Contains(by, x.By.Name) {
					by = append(by, x.By.Name)
				}
			}
		}
		if len(by) > 0 {
			out += ", " + verdicts[v] + " by " + strings.Join(by, ", ")
		}
	}
	return out
}

// groups draws the active groups of the current stage, in their order.
func (d *drawing) groups(st *stages.PlannedStage, o *stages.StageOutline, run *runstate.StageRun) (out []block) {
	shown := d.groupsShown(o.Groups)
	hidden := map[stages.State]int{}
	for j := range st.Groups {
		g := &st.Groups[j]
		if !slices.Contains(shown, j) {
			hidden[o.Groups[j].State]++
			continue
		}
		out = append(out, block{line: d.row("  ", g.Name, o.Groups[j].State, &o.Groups[j], g.MaxFailures)})
		var gates []runstate.Gate
		if len(run.Groups) > 0 {
			gates = run.Groups[j].Gates
		}
		out = append(out, d.gates("    ", o.Groups[j].Gates, gates, approval.Before))
		out = append(out, d.flying("    ", g.First, g.First+g.Len-1)...)
		out = append(out, d.gates("    ", o.Groups[j].Gates, gates, approval.After))
	}
	if n := len(st.Groups) - len(shown); n > 0 {
		of := counts([]stages.State{stages.Failed, stages.Running, stages.Pending, stages.Stopping, stages.Stopped, stages.Completed, stages.Skipped, stages.NotStarted, stages.Aborted},
			hidden, func(s stages.State) string { return string(s) })
		out = append(out, block{line: "  " + d.paint(faint, fmt.Sprintf("%s and %d more groups: %s", d.ellipsis(), n, of))})
	}
	return out
}

// groupsShown selects the groups with their own line.
func (d *drawing) groupsShown(groups []stages.GroupOutline) []int {
	weight := func(j int) int {
		switch g := &groups[j]; {
		case g.State == stages.Failed:
			return 0
		case g.InFlight > 0:
			return 1
		case g.State == stages.Pending || g.State == stages.Running || g.State == stages.Stopping:
			return 2
		case g.State == stages.Completed || g.State == stages.Skipped:
			return 4
		default:
			return 3
		}
	}
	all := make([]int, len(groups))
	for j := range groups {
		all[j] = j
	}
	if most := max(2, d.height/4); len(all) > most {
		slices.SortStableFunc(all, func(a, b int) int { return weight(a) - weight(b) })
		all = all[:most]
	}
	return all
}

// waits lists the reasons for waiting that are not shown beside a cluster.
func (d *drawing) waits(indent string) block {
	all := waits(&d.m.Status)
	return newList(firstWaits, len(all), func(i int) string {
		return indent + d.mark(stages.Pending) + " " + d.paint(held, waitingFor(&all[i], d.m.Now, d.m.Hint))
	}, d.more(indent, len(all), "to wait for"))
}

// waits returns the reasons for waiting of a run, except the reasons of its clusters.
func waits(s *fleet.Status) (all []stages.Awaited) {
	clusters := map[string]int{}
	for i := range s.Run.Form(runstate.Key{}).InFlight {
		if f := &s.Run.Form(runstate.Key{}).InFlight[i]; f.Attempt != 0 {
			clusters[s.Plan.Clusters[f.Pos].Name]++
		}
	}
	for i := range s.Run.Form(runstate.Key{}).Waiting {
		clusters[s.Plan.Clusters[s.Run.Form(runstate.Key{}).Waiting[i].Pos].Name]++
	}
	for _, a := range slices.Backward(step.Waiting(s.Plan, &s.Run)) { // gates come first
		if (a.Kind == stages.AwaitObservation || a.Kind == stages.AwaitTime || a.Kind == stages.AwaitWindow) && clusters[a.Name] > 0 {
			clusters[a.Name]--
			continue
		}
		all = append(all, a)
	}
	slices.Reverse(all)
	return all
}

// more ends a list with the number of omitted entries.
func (d *drawing) more(indent string, n int, what string) func(from int) string {
	return func(from int) string {
		return indent + d.paint(faint, fmt.Sprintf("%s and %d more %s", d.ellipsis(), n-from, what))
	}
}

// failures lists the clusters from a position to another that failed or were skipped, the failed
// ones first.
func (d *drawing) failures(indent string, first, last int) block {
	var all []runstate.Unsuccessful
	for _, state := range []stages.State{stages.Failed, stages.Skipped} {
		for i := range d.r.Form(runstate.Key{}).Unsuccessful {
			if x := &d.r.Form(runstate.Key{}).Unsuccessful[i]; x.State == state && x.First <= last && x.Last >= first {
				all = append(all, x.Spanning(max(x.First, first), min(x.Last, last)))
			}
		}
	}
	line := func(i int) string {
		x := &all[i]
		out := indent + d.mark(x.State) + " " + d.paint(plain, d.p.Clusters[x.First].Name)
		if x.Last > x.First {
			out += d.paint(plain, fmt.Sprintf(" to %s (%d)", d.p.Clusters[x.Last].Name, x.Last-x.First+1))
		}
		out += " " + d.paint(looks[x.State].ink, strings.ToLower(string(x.State)))
		if x.Attempts > 1 {
			out += d.paint(plain, fmt.Sprintf(" after %d attempts", x.Attempts))
		}
		if x.Reason != "" {
			out += d.paint(plain, ": "+x.Reason)
		}
		return out
	}
	return newList(firstFailures, len(all), line, func(from int) string {
		of := map[stages.State]int{}
		for i := range all[from:] {
			of[all[from+i].State] += all[from+i].Last - all[from+i].First + 1
		}
		text := counts([]stages.State{stages.Failed, stages.Skipped}, of, func(s stages.State) string { return strings.ToLower(string(s)) })
		return indent + d.paint(faint, d.ellipsis()+" and "+strings.Replace(text, " ", " more ", 1))
	})
}

// flying lists the clusters in flight from a position to another, those in trouble first, and the
// clusters that will be started again.
func (d *drawing) flying(indent string, first, last int) []block {
	var flying []*runstate.InFlight
	for i := range d.r.Form(runstate.Key{}).InFlight {
		if f := &d.r.Form(runstate.Key{}).InFlight[i]; f.Attempt != 0 && f.Pos >= first && f.Pos <= last {
			flying = append(flying, f)
		}
	}
	trouble := func(f *runstate.InFlight) int {
		if f.Attempt > 1 || f.Phase == stages.BackingOff || f.Message != "" {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(flying, func(a, b *runstate.InFlight) int {
		if t := trouble(a) - trouble(b); t != 0 {
			return t
		}
		return a.Pos - b.Pos
	})
	var retrying []*runstate.Retrying
	for i := range d.r.Form(runstate.Key{}).Waiting {
		if y := &d.r.Form(runstate.Key{}).Waiting[i]; y.Pos >= first && y.Pos <= last {
			retrying = append(retrying, y)
		}
	}
	return []block{
		newList(firstFlying, len(flying), func(i int) string { return indent + d.inFlight(flying[i]) }, func(from int) string {
			of := map[stages.ClusterPhase]int{}
			for _, f := range flying[from:] {
				of[f.Phase]++
			}
			text := counts(phaseOrder, of, func(p stages.ClusterPhase) string { return phases[p] })
			return d.more(indent, len(flying), "in flight")(from) + d.paint(faint, ": "+text)
		}),
		newList(firstRetrying, len(retrying), func(i int) string {
			y := retrying[i]
			out := fmt.Sprintf("%s to be tried again, attempt %d", d.p.Clusters[y.Pos].Name, y.Attempt)
			if at := y.NotYet.Time(); at.After(d.m.Now) {
				out += ", not " + until(at, d.m.Now)
			}
			if y.Message != "" {
				out += ": " + y.Message
			}
			return indent + d.mark(stages.Pending) + " " + d.paint(held, out)
		}, d.more(indent, len(retrying), "to be tried again")),
	}
}

// inFlight draws a cluster in flight: its phase, the time in it, and its problem.
func (d *drawing) inFlight(f *runstate.InFlight) string {
	out := d.mark(stages.Running) + " " + d.paint(plain, d.p.Clusters[f.Pos].Name) + " " + d.paint(busy, phases[f.Phase])
	out += d.paint(plain, " for "+brief(d.m.Now.Sub(d.m.since(f))))
	if f.Attempt > 1 {
		out += d.paint(held, fmt.Sprintf(", attempt %d", f.Attempt))
	}
	switch {
	case f.Phase == stages.Soaking:
		out += d.paint(plain, ", "+until(f.SoakEnds.Time(), d.m.Now))
	case f.NotYet != 0:
		out += d.paint(plain, ", "+until(f.NotYet.Time(), d.m.Now))
	}
	if f.Drain {
		out += d.paint(faint, ", skipped")
	}
	if f.Message != "" {
		out += d.paint(held, ": "+f.Message)
	}
	return out
}

// gates lists the gates on one side that do not wait: passed gates with their deciders, and
// future gates.
func (d *drawing) gates(indent string, outlines []stages.GateOutline, gates []runstate.Gate, when approval.When) block {
	var lines []string
	first := firstGates
	for i := range outlines {
		o := &outlines[i]
		if o.When != when || o.State == stages.Pending && len(decisionsOf(o, gates)) == 0 {
			continue
		}
		if o.State == stages.NotStarted {
			first = firstToCome
		}
		lines = append(lines, indent+d.gate(o, gates))
	}
	return newList(first, len(lines), func(i int) string { return lines[i] }, d.more(indent, len(lines), "gates"))
}

func (d *drawing) gate(o *stages.GateOutline, gates []runstate.Gate) string {
	out := d.mark(o.State) + " " + d.paint(map[bool]ink{true: faint, false: plain}[o.State == stages.NotStarted], gateName(o.When, o.Type))
	i := slices.IndexFunc(gates, func(g runstate.Gate) bool { return g.When == o.When && g.Type == o.Type })
	switch {
	case len(decisionsOf(o, gates)) > 0:
		out += d.paint(plain, " "+decided(gates[i].Decisions))
	case o.By != "":
		out += d.paint(plain, " ended by "+o.By)
	case i >= 0 && o.State == stages.Completed:
		out += d.paint(plain, " of "+brief(o.Ended.Sub(gates[i].Opened.Time())))
	}
	switch {
	case o.State == stages.Pending:
		out += d.paint(held, ", and more are missing")
	case o.State == stages.Skipped:
		out += d.paint(faint, " skipped")
	case !o.Ended.IsZero():
		out += d.paint(faint, " at "+clock(o.Ended, d.m.Now))
	}
	return out
}

// decisionsOf are the decisions of a gate that has been reached.
func decisionsOf(o *stages.GateOutline, gates []runstate.Gate) []approval.Decision {
	for i := range gates {
		if g := &gates[i]; g.When == o.When && g.Type == o.Type {
			return g.Decisions
		}
	}
	return nil
}

// Summary describes the progress of a run in one line: its state, its stage, the number of
// clusters that are done, and its reasons for waiting.
func Summary(m Model) string {
	p, r := m.Status.Plan, &m.Status.Run
	o := r.Outline(p)
	out := fmt.Sprintf("run %s is %s", r.Name, o.Run)
	if r.Form(runstate.Key{}).Stage < len(p.Stages) {
		out += " in stage " + p.Stages[r.Form(runstate.Key{}).Stage].Name
	}
	done := 0
	for i := range o.Stages {
		done += sumOf(o.Stages[i].Groups).Completed
	}
	parts := []string{out, fmt.Sprintf("%d of %d clusters done", done, p.Len())}
	for _, a := range step.Waiting(p, r) {
		if a.Kind != stages.AwaitObservation {
			parts = append(parts, waitingFor(&a, m.Now, nil))
		}
	}
	return strings.Map(printable, strings.Join(parts, ", "))
}
