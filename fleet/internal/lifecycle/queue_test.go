package lifecycle

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/stages"
)

// queueEntry returns the entry of a run; its UID is its name with the prefix u.
func queueEntry(run string, index int) Entry { return Entry{UID: "u" + run, Run: run, Index: index} }

func queueOf(t *testing.T, entries ...Entry) Queue {
	t.Helper()
	var q Queue
	for _, e := range entries {
		next, _, err := q.Enter(e, stages.QueueRun)
		if err != nil {
			t.Fatal(err)
		}
		q = next
	}
	return q
}

// queueCase is a run that enters a queue.
type queueCase struct {
	name    string
	queue   Queue
	enter   Entry
	policy  stages.Admission
	want    Queue
	verdict Turn
}

func (tt queueCase) run(t *testing.T) {
	before, _ := json.Marshal(tt.queue)
	q, verdict, err := tt.queue.Enter(tt.enter, tt.policy)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tt.want, q, cmp.Transformer("json", queueJSON)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(tt.verdict, verdict); diff != "" {
		t.Error(diff)
	}
	if after, _ := json.Marshal(tt.queue); string(before) != string(after) {
		t.Errorf("the queue itself was changed:\n%s\n%s", before, after)
	}
	again, second, err := q.Enter(tt.enter, tt.policy)
	if err != nil || queueJSON(again) != queueJSON(q) || !cmp.Equal(second, verdict) {
		t.Errorf("entering again gives %s, %+v, %v", queueJSON(again), second, err)
	}
}

func TestQueueEnter(t *testing.T) {
	a, b, c := queueEntry("a", 5), queueEntry("b", 6), queueEntry("c", 7)
	for _, tt := range []queueCase{
		{"the first starts", Queue{}, a, "", Queue{Active: &a}, Turn{Starts: true}},
		{"the first starts, whatever the policy", Queue{}, a, stages.RejectRun, Queue{Active: &a}, Turn{Starts: true}},
		{"by default it waits", Queue{Active: &a}, b, "", Queue{Active: &a, Waiting: []Entry{b}}, Turn{WaitsFor: "a"}},
		{
			"behind those that wait",
			Queue{Active: &a, Waiting: []Entry{b}},
			c, stages.QueueRun,
			Queue{Active: &a, Waiting: []Entry{b, c}},
			Turn{WaitsFor: "a"},
		},
		{
			"behind those that wait, when no run is active",
			Queue{Waiting: []Entry{b}},
			c, stages.QueueRun,
			Queue{Waiting: []Entry{b, c}},
			Turn{WaitsFor: "b"},
		},
		{
			"the next starts when no run is active",
			Queue{Waiting: []Entry{b, c}},
			b, stages.QueueRun,
			Queue{Active: &b, Waiting: []Entry{c}},
			Turn{Starts: true},
		},
		{
			"one of the same index waits",
			Queue{Active: &a},
			queueEntry("x", 5), stages.QueueRun,
			Queue{Active: &a, Waiting: []Entry{queueEntry("x", 5)}},
			Turn{WaitsFor: "a"},
		},
		{
			"one that waits already is not rejected",
			Queue{Active: &a, Waiting: []Entry{b}},
			b, stages.RejectRun,
			Queue{Active: &a, Waiting: []Entry{b}},
			Turn{WaitsFor: "a"},
		},
		{
			"one that waits already supersedes no run",
			Queue{Active: &a, Waiting: []Entry{b, c}},
			c, stages.SupersedeActive,
			Queue{Active: &a, Waiting: []Entry{b, c}},
			Turn{WaitsFor: "a"},
		},
	} {
		t.Run(tt.name, tt.run)
	}
}

func TestQueueEnterSupersedes(t *testing.T) {
	a, b, c := queueEntry("a", 5), queueEntry("b", 6), queueEntry("c", 7)
	old := queueEntry("old", 4)
	draining := Queue{Active: &a, Waiting: []Entry{b}, Superseded: []Superseder{{a, "b"}}}
	for _, tt := range []queueCase{
		{
			"supersede",
			Queue{Active: &a, Waiting: []Entry{b}},
			c, stages.SupersedeActive,
			Queue{Active: &a, Waiting: []Entry{c}, Superseded: []Superseder{{a, "c"}, {b, "c"}}},
			Turn{WaitsFor: "a", Supersedes: []Entry{a, b}},
		},
		{
			"supersede one that waits, when no run is active",
			Queue{Waiting: []Entry{b}},
			c, stages.SupersedeActive,
			Queue{Active: &c, Superseded: []Superseder{{b, "c"}}},
			Turn{Starts: true, Supersedes: []Entry{b}},
		},
		{
			"a rollback supersedes everybody",
			Queue{Active: &a, Waiting: []Entry{b}},
			old, stages.QueueRun,
			Queue{Active: &a, Waiting: []Entry{old}, Superseded: []Superseder{{a, "old"}, {b, "old"}}},
			Turn{WaitsFor: "a", Supersedes: []Entry{a, b}},
		},
		{
			"a rollback is not rejected",
			Queue{Active: &a},
			old, stages.RejectRun,
			Queue{Active: &a, Waiting: []Entry{old}, Superseded: []Superseder{{a, "old"}}},
			Turn{WaitsFor: "a", Supersedes: []Entry{a}},
		},
		{
			"older than one that waits is no rollback",
			Queue{Active: &old, Waiting: []Entry{c}},
			b, stages.QueueRun,
			Queue{Active: &old, Waiting: []Entry{c, b}},
			Turn{WaitsFor: "old"},
		},
		{
			"while the active one drains, its successor counts", draining, queueEntry("x", 6), stages.QueueRun,
			Queue{Active: &a, Waiting: []Entry{b, queueEntry("x", 6)}, Superseded: draining.Superseded},
			Turn{WaitsFor: "a"},
		},
		{
			"a rollback of the successor takes over what that has to supersede", draining, old, stages.QueueRun,
			Queue{Active: &a, Waiting: []Entry{old}, Superseded: []Superseder{{a, "b"}, {b, "old"}}},
			Turn{WaitsFor: "a", Supersedes: []Entry{a, b}},
		},
		{"one that was superseded is told", draining, a, stages.QueueRun, draining, Turn{SupersededBy: "b"}},
		{"who superseded is told again", draining, b, stages.QueueRun, draining, Turn{WaitsFor: "a", Supersedes: []Entry{a}}},
	} {
		t.Run(tt.name, tt.run)
	}
}

func queueJSON(q Queue) string {
	b, err := json.Marshal(q)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func TestQueueIsAValue(t *testing.T) {
	a := queueEntry("a", 1)
	q := Queue{Active: &a, Waiting: make([]Entry, 0, 8)}
	one, _, _ := q.Enter(queueEntry("b", 2), stages.QueueRun)
	two, _, _ := q.Enter(queueEntry("c", 3), stages.QueueRun)
	if one.Waiting[0].Run != "b" || two.Waiting[0].Run != "c" {
		t.Errorf("two queues share what waits: %s, %s", queueJSON(one), queueJSON(two))
	}
}

func TestQueueEnterRejects(t *testing.T) {
	for name, q := range map[string]Queue{
		"active":            queueOf(t, queueEntry("a", 1)),
		"waiting":           queueOf(t, queueEntry("x", 1), queueEntry("a", 1)).Leave("ux"),
		"active and drains": {Active: &Entry{"ua", "a", 1, false}, Superseded: []Superseder{{Entry{"ua", "a", 1, false}, "gone"}}},
	} {
		got, _, err := q.Enter(queueEntry("b", 2), stages.RejectRun)
		var rejected *stages.RejectedError
		if !errors.As(err, &rejected) {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(&stages.RejectedError{Run: "b", Active: "a"}, rejected); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if want := "run b is rejected: run a has the placement"; !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error does not say %q: %v", name, want, err)
		}
		if queueJSON(got) != queueJSON(q) {
			t.Errorf("%s: the queue has changed to %s", name, queueJSON(got))
		}
	}
}

func TestQueueEnterChecksItsArguments(t *testing.T) {
	for _, e := range []Entry{{Run: "a"}, {UID: "u"}, {UID: "u", Run: "a", Index: -1}} {
		if _, _, err := (Queue{}).Enter(e, stages.QueueRun); err == nil {
			t.Errorf("%+v entered", e)
		}
	}
	_, _, err := (Queue{}).Enter(queueEntry("a", 1), "Jump")
	for _, want := range []string{`admission "Jump" must be Queue, Reject or Supersede`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
}
