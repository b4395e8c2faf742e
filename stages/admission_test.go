package stages

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lineEntry is a run; its UID is its name with a u before it.
func lineEntry(run string, index int) Entry { return Entry{UID: "u" + run, Run: run, Index: index} }

func lineOf(t *testing.T, entries ...Entry) Line {
	t.Helper()
	var l Line
	for _, e := range entries {
		next, _, err := l.Enter(e, QueueRun)
		if err != nil {
			t.Fatal(err)
		}
		l = next
	}
	return l
}

// lineCase is a run that enters a line.
type lineCase struct {
	name    string
	line    Line
	enter   Entry
	policy  Admission
	want    Line
	verdict Verdict
}

func (tt lineCase) run(t *testing.T) {
	before, _ := json.Marshal(tt.line)
	l, verdict, err := tt.line.Enter(tt.enter, tt.policy)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tt.want, l, cmp.Transformer("json", lineJSON)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(tt.verdict, verdict); diff != "" {
		t.Error(diff)
	}
	if after, _ := json.Marshal(tt.line); string(before) != string(after) {
		t.Errorf("the line itself was changed:\n%s\n%s", before, after)
	}
	again, second, err := l.Enter(tt.enter, tt.policy)
	if err != nil || lineJSON(again) != lineJSON(l) || !cmp.Equal(second, verdict) {
		t.Errorf("entering again gives %s, %+v, %v", lineJSON(again), second, err)
	}
}

func TestLineEnter(t *testing.T) {
	a, b, c := lineEntry("a", 5), lineEntry("b", 6), lineEntry("c", 7)
	for _, tt := range []lineCase{
		{"the first starts", Line{}, a, "", Line{Active: &a}, Verdict{Starts: true}},
		{"the first starts, whatever the policy", Line{}, a, RejectRun, Line{Active: &a}, Verdict{Starts: true}},
		{"by default it waits", Line{Active: &a}, b, "", Line{Active: &a, Waiting: []Entry{b}}, Verdict{WaitsFor: "a"}},
		{
			"behind those that wait",
			Line{Active: &a, Waiting: []Entry{b}},
			c, QueueRun,
			Line{Active: &a, Waiting: []Entry{b, c}},
			Verdict{WaitsFor: "a"},
		},
		{
			"behind those that wait, when nobody is active",
			Line{Waiting: []Entry{b}},
			c, QueueRun,
			Line{Waiting: []Entry{b, c}},
			Verdict{WaitsFor: "b"},
		},
		{
			"the next starts when nobody is active",
			Line{Waiting: []Entry{b, c}},
			b, QueueRun,
			Line{Active: &b, Waiting: []Entry{c}},
			Verdict{Starts: true},
		},
		{
			"one of the same index waits",
			Line{Active: &a},
			lineEntry("x", 5), QueueRun,
			Line{Active: &a, Waiting: []Entry{lineEntry("x", 5)}},
			Verdict{WaitsFor: "a"},
		},
		{
			"one that waits already is not rejected",
			Line{Active: &a, Waiting: []Entry{b}},
			b, RejectRun,
			Line{Active: &a, Waiting: []Entry{b}},
			Verdict{WaitsFor: "a"},
		},
		{
			"one that waits already supersedes nobody",
			Line{Active: &a, Waiting: []Entry{b, c}},
			c, SupersedeActive,
			Line{Active: &a, Waiting: []Entry{b, c}},
			Verdict{WaitsFor: "a"},
		},
	} {
		t.Run(tt.name, tt.run)
	}
}

func TestLineEnterSupersedes(t *testing.T) {
	a, b, c := lineEntry("a", 5), lineEntry("b", 6), lineEntry("c", 7)
	old := lineEntry("old", 4)
	draining := Line{Active: &a, Waiting: []Entry{b}, Superseded: []Superseder{{a, "b"}}}
	for _, tt := range []lineCase{
		{
			"supersede",
			Line{Active: &a, Waiting: []Entry{b}},
			c, SupersedeActive,
			Line{Active: &a, Waiting: []Entry{c}, Superseded: []Superseder{{a, "c"}, {b, "c"}}},
			Verdict{WaitsFor: "a", Supersedes: []Entry{a, b}},
		},
		{
			"supersede one that waits, when nobody is active",
			Line{Waiting: []Entry{b}},
			c, SupersedeActive,
			Line{Active: &c, Superseded: []Superseder{{b, "c"}}},
			Verdict{Starts: true, Supersedes: []Entry{b}},
		},
		{
			"a rollback supersedes everybody",
			Line{Active: &a, Waiting: []Entry{b}},
			old, QueueRun,
			Line{Active: &a, Waiting: []Entry{old}, Superseded: []Superseder{{a, "old"}, {b, "old"}}},
			Verdict{WaitsFor: "a", Supersedes: []Entry{a, b}},
		},
		{
			"a rollback is not rejected",
			Line{Active: &a},
			old, RejectRun,
			Line{Active: &a, Waiting: []Entry{old}, Superseded: []Superseder{{a, "old"}}},
			Verdict{WaitsFor: "a", Supersedes: []Entry{a}},
		},
		{
			"older than one that waits is no rollback",
			Line{Active: &old, Waiting: []Entry{c}},
			b, QueueRun,
			Line{Active: &old, Waiting: []Entry{c, b}},
			Verdict{WaitsFor: "old"},
		},
		{
			"while the active one drains, its successor counts", draining, lineEntry("x", 6), QueueRun,
			Line{Active: &a, Waiting: []Entry{b, lineEntry("x", 6)}, Superseded: draining.Superseded},
			Verdict{WaitsFor: "a"},
		},
		{
			"a rollback of the successor takes over what that has to supersede", draining, old, QueueRun,
			Line{Active: &a, Waiting: []Entry{old}, Superseded: []Superseder{{a, "b"}, {b, "old"}}},
			Verdict{WaitsFor: "a", Supersedes: []Entry{a, b}},
		},
		{"one that was superseded is told", draining, a, QueueRun, draining, Verdict{SupersededBy: "b"}},
		{"who superseded is told again", draining, b, QueueRun, draining, Verdict{WaitsFor: "a", Supersedes: []Entry{a}}},
	} {
		t.Run(tt.name, tt.run)
	}
}

func lineJSON(l Line) string {
	b, err := json.Marshal(l)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func TestLineIsAValue(t *testing.T) {
	a := lineEntry("a", 1)
	l := Line{Active: &a, Waiting: make([]Entry, 0, 8)}
	one, _, _ := l.Enter(lineEntry("b", 2), QueueRun)
	two, _, _ := l.Enter(lineEntry("c", 3), QueueRun)
	if one.Waiting[0].Run != "b" || two.Waiting[0].Run != "c" {
		t.Errorf("two lines share what waits: %s, %s", lineJSON(one), lineJSON(two))
	}
}

func TestLineEnterRejects(t *testing.T) {
	for name, l := range map[string]Line{
		"active":            lineOf(t, lineEntry("a", 1)),
		"waiting":           lineOf(t, lineEntry("x", 1), lineEntry("a", 1)).Leave("ux"),
		"active and drains": {Active: &Entry{"ua", "a", 1}, Superseded: []Superseder{{Entry{"ua", "a", 1}, "gone"}}},
	} {
		got, _, err := l.Enter(lineEntry("b", 2), RejectRun)
		var rejected *RejectedError
		if !errors.As(err, &rejected) {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(&RejectedError{Run: "b", Active: "a"}, rejected); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		wantError(t, err, "run b is rejected: run a has the placement")
		if lineJSON(got) != lineJSON(l) {
			t.Errorf("%s: the line has changed to %s", name, lineJSON(got))
		}
	}
}

func TestLineEnterChecksItsArguments(t *testing.T) {
	for _, e := range []Entry{{Run: "a"}, {UID: "u"}, {UID: "u", Run: "a", Index: -1}} {
		if _, _, err := (Line{}).Enter(e, QueueRun); err == nil {
			t.Errorf("%+v entered", e)
		}
	}
	_, _, err := (Line{}).Enter(lineEntry("a", 1), "Jump")
	wantError(t, err, `admission "Jump" must be Queue, Reject or Supersede`)
}

func TestLineLeave(t *testing.T) {
	a, b, c := lineEntry("a", 1), lineEntry("b", 2), lineEntry("c", 3)
	l := lineOf(t, a, b, c)
	if _, ok := l.Next(); ok {
		t.Error("somebody is next while one is active")
	}
	if got := l.Leave("nobody"); lineJSON(got) != lineJSON(l) {
		t.Errorf("one that is not in the line changed it to %s", lineJSON(got))
	}
	free := l.Leave(a.UID)
	if free.Active != nil {
		t.Error("leaving made somebody active")
	}
	if next, ok := free.Next(); !ok || next != b {
		t.Errorf("next is %+v", next)
	}
	if _, v, _ := free.Enter(c, QueueRun); v.WaitsFor != "b" {
		t.Errorf("the second in line: %+v", v)
	}
	if next, _ := free.Leave(b.UID).Next(); next != c {
		t.Errorf("after one that waited has left, next is %+v", next)
	}
	if lineJSON(l) != lineJSON(lineOf(t, a, b, c)) {
		t.Error("leaving changed the line itself")
	}
}

// A rollback in full: the stuck run drains, is deleted, and the placement is
// free for the rollback.
func TestLineRollback(t *testing.T) {
	stuck, waits, back := lineEntry("stuck", 5), lineEntry("waits", 6), lineEntry("back", 4)
	l := lineOf(t, stuck, waits)
	l, v, _ := l.Enter(back, QueueRun)
	if diff := cmp.Diff(Verdict{WaitsFor: "stuck", Supersedes: []Entry{stuck, waits}}, v); diff != "" {
		t.Error(diff)
	}
	l = l.Leave(waits.UID)
	if l, v, _ = l.Enter(back, QueueRun); !cmp.Equal(v, Verdict{WaitsFor: "stuck", Supersedes: []Entry{stuck}}) {
		t.Errorf("verdict %+v", v)
	}
	l = l.Leave(stuck.UID)
	if l, v, _ = l.Enter(back, QueueRun); !cmp.Equal(v, Verdict{Starts: true}) {
		t.Errorf("verdict %+v", v)
	}
	if len(l.Superseded) != 0 || len(l.Waiting) != 0 {
		t.Errorf("left behind: %s", lineJSON(l))
	}
}

// Whatever happens, a run is in the line once, what is stored is read the
// same, and when everybody asks and ends, everybody has had a verdict that
// ends it.
func TestLineRandomWalk(t *testing.T) {
	policies := []Admission{QueueRun, RejectRun, SupersedeActive}
	for seed := range uint64(few(200, 5)) {
		random := rand.New(rand.NewPCG(seed, 7))
		var l Line
		for range 100 {
			e := lineEntry(fmt.Sprint("r", random.IntN(8)), 0)
			e.Index = len(e.Run) + int(e.Run[1])%5
			if random.IntN(3) == 0 {
				l = l.Leave(e.UID)
			} else if next, _, err := l.Enter(e, policies[random.IntN(3)]); err == nil {
				l = next
			}
			lineCheck(t, seed, l)
		}
		for steps := 0; l.Active != nil || len(l.Waiting)+len(l.Superseded) > 0; steps++ {
			if steps > 20 {
				t.Fatalf("seed %d: the line does not come to an end: %s", seed, lineJSON(l))
			}
			l = lineServe(t, l)
		}
	}
}

// lineServe does what a host does: ends what was superseded, and lets the next
// run start and end.
func lineServe(t *testing.T, l Line) Line {
	for _, s := range l.Superseded {
		if _, v, _ := l.Enter(s.Entry, QueueRun); v.SupersededBy == "" {
			t.Errorf("%s was not told that it is superseded: %s", s.Run, lineJSON(l))
		}
		l = l.Leave(s.UID)
	}
	if next, ok := l.Next(); ok {
		l, _, _ = l.Enter(next, QueueRun)
	}
	if l.Active != nil {
		l = l.Leave(l.Active.UID)
	}
	return l
}

func lineCheck(t *testing.T, seed uint64, l Line) {
	t.Helper()
	var read Line
	if err := json.Unmarshal([]byte(lineJSON(l)), &read); err != nil || lineJSON(read) != lineJSON(l) {
		t.Fatalf("seed %d: %s is read as %s: %v", seed, lineJSON(l), lineJSON(read), err)
	}
	seen := map[string]int{}
	for _, e := range l.Waiting {
		seen[e.UID]++
	}
	for _, s := range l.Superseded {
		if l.Active == nil || s.UID != l.Active.UID {
			seen[s.UID]++
		}
	}
	if l.Active != nil {
		seen[l.Active.UID]++
	}
	for uid, n := range seen {
		if n != 1 {
			t.Fatalf("seed %d: %s is in the line %d times: %s", seed, uid, n, lineJSON(l))
		}
	}
}
