package lifecycle

import (
	stdcmp "cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/stages"
)

var update = flag.Bool("update", false, "rewrite the expected output of the scripts")

// TestScripts runs the files under testdata. A block is a directive with its arguments, a line of
// dashes and the expected output, up to a blank line. Run it with -update to write the output
// again, and review the difference.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(text))
			if *update {
				err = os.WriteFile(file, []byte(got), 0o644)
			} else if diff := cmp.Diff(string(text), got); diff != "" {
				t.Error(diff)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// play carries out a script and returns it with its output.
func play(t *testing.T, text string) string {
	var out strings.Builder
	w := newEnv()
	w.watch = func(_ State, in Input, _ Facts, o Outcome) {
		if err := o.State.Validate(); err != nil {
			t.Errorf("%T: %v", in, err)
		}
	}
	output := false
	for line := range strings.Lines(text) {
		blank := strings.TrimSpace(line) == ""
		switch {
		case output && !blank:
		case blank || line[0] == '#':
			out.WriteString(line)
			output = false
		case line == "----\n":
			output = true
		default:
			out.WriteString(line + "----\n" + w.do(strings.TrimSpace(line)))
		}
	}
	return out.String()
}

// args are the arguments of a directive: words, and key=value pairs.
type args struct {
	words []string
	named map[string]string
}

func (a args) list(key string) []string {
	return strings.FieldsFunc(a.named[key], func(r rune) bool { return r == ',' })
}

func (a args) number(key string) int {
	n, _ := strconv.Atoi(a.named[key])
	return n
}

func (a args) has(word string) bool { return slices.Contains(a.words, word) }

func parse(text string) (name string, a args) {
	name, rest, _ := strings.Cut(text, " ")
	a.named = map[string]string{}
	for word := range strings.FieldsSeq(rest) {
		if key, value, ok := strings.Cut(word, "="); ok {
			a.named[key] = value
		} else {
			a.words = append(a.words, word)
		}
	}
	a.words = append(a.words, "")
	return name, a
}

// do carries out a directive and returns its output.
func (w *env) do(directive string) string {
	w.told, w.done = nil, nil
	name, a := parse(directive)
	out, err := w.directive(name, a)
	var b strings.Builder
	if err != nil {
		fmt.Fprintf(&b, "error: %v\n", err)
	}
	b.WriteString(turnText(out.Turn))
	for _, e := range w.told {
		b.WriteString(eventText(e))
	}
	for _, e := range w.done {
		b.WriteString(effectText(e))
	}
	switch name {
	case "state":
		s := w.state()
		b.WriteString(w.stateText(&s))
	case "needs":
		fmt.Fprintf(&b, "%+v\n", out.Need)
	}
	return b.String()
}

func (w *env) directive(name string, a args) (Outcome, error) {
	r := w.runs[a.words[0]]
	if r == nil && name == "retry" {
		r = w.deleted[a.words[0]]
	}
	switch name {
	case "state":
		return Outcome{}, nil
	case "placement":
		w.spec.Admission, w.spec.HistoryLimit, w.spec.RunHistory = stages.Admission(a.named["admission"]), a.number("snapshots"), a.number("runs")
		for _, c := range a.list("clusters") {
			w.inventory[c] = true
		}
		return Outcome{}, nil
	case "snapshot":
		return Outcome{}, w.snapshot(a.has("for-run"))
	case "decide":
		return w.tell(SelectionChanged{PolicyDigest: a.words[0], Digest: a.words[1], Clusters: a.number("clusters"), Pages: 1})
	case "inventory":
		for _, c := range a.list("gone") {
			delete(w.inventory, c)
		}
		w.noFleet = a.has("unreadable")
		return Outcome{}, nil
	case "bindings":
		w.lost = a.has("lost")
		return Outcome{}, nil
	case "record", "run", "request":
		return w.newRun(name, a)
	case "rollback", "plan", "rename", "refuse":
		return w.rollbackDirective(name, r, a)
	case "irreversible", "reversible":
		index, _ := strconv.Atoi(a.words[0])
		return w.tell(IrreversibleMarked{Index: index, Reversible: name == "reversible", By: "ann"})
	case "delete-placement":
		return w.tell(DeleteRequested{Deletion{By: "ann", Since: w.now, End: DeleteObjects, Run: deletionRun}})
	case "empty":
		return w.tell(Emptied{UID: "placement-1"})
	case "collect":
		s := w.state()
		if _, err := w.tell(CollectionBegun{s.GCGeneration}); err != nil {
			return Outcome{}, err
		}
		var uids []string
		for _, r := range s.Retired {
			uids = append(uids, r.UID)
		}
		return w.tell(Collected{uids})
	}
	if r == nil {
		return Outcome{}, fmt.Errorf("there is no directive %s, or no run %q", name, a.words[0])
	}
	return w.runDirective(name, r, a)
}

// newRun records a run, and admits it unless the directive only records it.
func (w *env) newRun(name string, a args) (Outcome, error) {
	r := &record{
		Entry: Entry{Run: a.words[0], UID: "uid-" + a.words[0], Index: a.number("index")}, hold: a.has("hold"), catchUp: a.has("catchup"), noBack: a.has("norollback"),
	}
	if old := w.runs[r.Run]; old != nil {
		r.UID += "-2"
	}
	if name == "request" {
		return w.tell(RunRequested{Entry: r.Entry, Hold: r.hold})
	}
	for _, c := range a.list("clusters") {
		w.inventory[c] = true
		r.clusters = append(r.clusters, Reached{Cluster: c, Index: r.Index, Revision: "rev-" + strconv.Itoa(r.Index)})
	}
	for _, c := range a.list("remove") {
		r.clusters = append(r.clusters, Reached{Cluster: c, Index: None})
	}
	for _, c := range a.list("evicts") {
		r.evicts, r.Evicts, r.catchUp, r.noBack = append(r.evicts, c), true, true, true
		r.clusters = append(r.clusters, Reached{Cluster: c, Index: None})
	}
	r.new = a.list("new")
	w.create(r)
	if of := a.named["of"]; of != "" {
		r.of = of
	}
	if name == "record" {
		return Outcome{}, nil
	}
	return w.admit(r)
}

// runDirective carries out a directive about a run.
func (w *env) runDirective(name string, r *record, a args) (Outcome, error) {
	switch name {
	case "admit":
		return w.admit(r)
	case "take":
		epoch := w.state().Epoch + 1
		out, err := w.tell(RunTaken{epoch})
		r.epoch = epoch
		return out, err
	case "turn":
		return w.tell(TurnAsked{r.Entry, r.epoch})
	case "begin":
		if a := w.state().Queue.Active; a == nil || a.UID != r.UID {
			return Outcome{}, fmt.Errorf("run %s does not have the placement", r.Run)
		}
		w.begin(r)
		return Outcome{}, nil
	case "reach":
		for i := range r.clusters {
			if got, ok := a.named[r.clusters[i].Cluster]; ok {
				if r.clusters[i].Got, ok = map[string]Got{"proven": Proven, "attempted": Attempted, "gone": Gone}[got]; !ok {
					return Outcome{}, fmt.Errorf("reach %s=%s: must be proven, attempted or gone", r.clusters[i].Cluster, got)
				}
			}
		}
		return Outcome{}, nil
	case "end":
		r.state = stages.State(a.words[1])
		if a.has("takeback") {
			u := undoOf("")
			r.request = &u
		}
		if a.has("unrecorded") {
			return Outcome{}, nil
		}
		return w.tell(RunEnded{r.Entry, r.epoch - int64(a.number("late")), r.result()})
	case "retry":
		out, err := w.tell(RetryAsked{r.Entry, r.attempt + 1, r.epoch})
		if out.Turn.Starts && !out.Turn.Retake && !a.has("crash") {
			w.begin(r)
		}
		return out, err
	case "delete":
		delete(w.runs, r.Run)
		w.deleted[r.Run] = r
		if a.has("unrecorded") {
			return Outcome{}, nil
		}
		in := RunDeleted{Entry: r.Entry, Plan: r.plan, Started: r.started}
		w.plans[r.UID] = r.clusters
		return w.tell(in)
	case "abandon":
		return w.tell(RunAbandoned{r.Entry, r.plan})
	case "damage":
		r.broken, r.noPages = a.has("record"), a.has("pages")
		if a.has("plan") {
			delete(w.plans, r.UID)
		}
		return Outcome{}, nil
	case "continue":
		return w.tell(DeletionContinued{r.Entry})
	case "needs":
		return w.advance(w.state(), TurnAsked{r.Entry, r.epoch}, Facts{Spec: w.spec})
	default:
		return Outcome{}, fmt.Errorf("there is no directive %s", name)
	}
}

func (w *env) rollbackDirective(name string, r *record, a args) (Outcome, error) {
	b := w.state().Rollback
	switch {
	case name == "rollback" && r != nil:
		w.now += 1000
		return w.tell(RollbackRequested{r.Entry, r.result(), undoOf(a.words[1])})
	case b == nil:
		return Outcome{}, fmt.Errorf("no run is to be taken back")
	case name == "rename":
		return w.tell(RollbackRenamed{b.UID, b.Run, a.words[0]})
	case name == "refuse":
		return w.tell(RollbackAbandoned{b.UID, "the source is gone"})
	}
	back, err := w.planBack()
	if err != nil {
		return w.tell(RollbackAbandoned{b.UID, err.Error()})
	}
	w.create(back)
	out, err := w.admit(back)
	if err != nil {
		delete(w.runs, back.Run)
	}
	return out, err
}

func turnText(t Turn) string {
	var out []string
	switch {
	case t.Retake:
		out = append(out, "is to be taken again")
	case t.Starts:
		out = append(out, "starts")
	}
	if t.WaitsFor != "" {
		out = append(out, "waits for "+t.WaitsFor)
	}
	if t.SupersededBy != "" {
		out = append(out, "superseded by "+t.SupersededBy)
	}
	if len(out) == 0 {
		return ""
	}
	return strings.Join(out, ", ") + "\n"
}

func eventText(e stages.Event) string {
	out := string(e.Type)
	if e.Run != "" {
		out += " " + e.Run
	}
	if e.Index != nil {
		out += fmt.Sprintf(" index=%d", *e.Index)
	}
	if e.Count != 0 {
		out += fmt.Sprintf(" count=%d", e.Count)
	}
	if e.By != "" {
		out += " by=" + e.By
	}
	if e.Message != "" {
		out += fmt.Sprintf(" %q", e.Message)
	}
	return out + "\n"
}

func effectText(e Effect) string {
	switch e := e.(type) {
	case StoreBindings:
		return fmt.Sprintf("store bindings %d:%s\n", e.Generation.Generation, bindingsText(e.Bindings))
	case StoreSelection:
		return fmt.Sprintf("store selection %d of %d clusters\n", e.Selection.Index, e.Selection.Clusters)
	case Supersede:
		return fmt.Sprintf("supersede %s for %s\n", e.Run.Run, e.By.Run)
	case DropBindings:
		return "drop bindings\n"
	case Collect:
		return "collect\n"
	default:
		return fmt.Sprintf("%T\n", e)
	}
}

func bindingsText(b Bindings) string {
	out := ""
	index := func(i int) string {
		if i == None {
			return "none"
		}
		return strconv.Itoa(i)
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		h := b[name]
		out += " " + name + "=" + index(h.ProvenIndex)
		if h.Attempted != h.ProvenIndex {
			out += "/" + index(h.Attempted)
		}
	}
	return out
}

func (w *env) stateText(s *State) string {
	var b strings.Builder
	var snapshots []int
	for _, kept := range s.Snapshots {
		snapshots = append(snapshots, kept.Index)
	}
	fmt.Fprintf(&b, "snapshots %v next %d in use %v", snapshots, s.NextIndex, s.InUse)
	if s.Whole != nil {
		fmt.Fprintf(&b, " whole %d", *s.Whole)
	}
	if s.Previous != nil {
		fmt.Fprintf(&b, " previous %d", *s.Previous)
	}
	if len(s.Irreversible) > 0 {
		fmt.Fprintf(&b, " irreversible %v", s.Irreversible)
	}
	fmt.Fprintf(&b, "\nbindings %d:%s\n", s.Bindings.Generation, bindingsText(w.bindings(s.Bindings)))
	if s.Base != nil {
		fmt.Fprintf(&b, "base of %s %d:%s\n", s.Base.Run, s.Base.Bindings.Generation, bindingsText(w.bindings(s.Base.Bindings)))
	}
	b.WriteString("queue")
	if a := s.Queue.Active; a != nil {
		b.WriteString(" " + a.Run)
	} else {
		b.WriteString(" -")
	}
	for _, e := range s.Queue.Waiting {
		b.WriteString(" " + e.Run)
	}
	for _, e := range s.Queue.Superseded {
		b.WriteString(" (" + e.Run + " by " + e.By + ")")
	}
	b.WriteString("\n")
	for i := range s.Runs {
		b.WriteString("run " + runText(&s.Runs[i]))
	}
	for i := range s.Retired {
		b.WriteString("retired " + s.Retired[i].Name + "\n")
	}
	if s.Rollback != nil {
		fmt.Fprintf(&b, "rollback of %s by %s\n", s.Rollback.OfRun, s.Rollback.Run)
	}
	if s.Deleting != nil {
		fmt.Fprintf(&b, "deleting by %s\n", stdcmp.Or(s.Deleting.Run, "no run"))
	}
	return b.String()
}

func runText(r *Run) string {
	out := fmt.Sprintf("%s index=%d %s", r.Name, r.Index, r.Ended)
	if r.Restart != 0 {
		out += fmt.Sprintf(" restart=%d", r.Restart)
	}
	if r.RolledBackBy != "" {
		out += " undone by " + r.RolledBackBy
	}
	if r.RollbackRefused != "" {
		out += fmt.Sprintf(" kept: %q", r.RollbackRefused)
	}
	return strings.TrimSpace(out) + "\n"
}
