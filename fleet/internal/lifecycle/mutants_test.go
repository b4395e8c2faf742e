package lifecycle

import (
	"maps"
	"slices"
	"testing"

	"github.com/slipway-dev/slipway/stages"
)

// mutant is Advance without one of its guards: it receives another state, input or facts, or its
// outcome is changed.
type mutant struct {
	name string
	law  string // the law that must catch it
	make advancer
}

// mutantSeeds is the number of random lives after which a mutant must have been caught.
const mutantSeeds = 1000

func TestLawsCatchMutants(t *testing.T) {
	for _, m := range slices.Concat(queueMutants(), runMutants(), retentionMutants(), rollbackMutants(), deletionMutants()) {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			others := map[string]int{}
			for seed := range uint64(mutantSeeds) {
				for _, v := range live(lawBytes(seed), m.make) {
					if v.law == m.law {
						return
					}
					others[v.law]++
				}
			}
			t.Errorf("law %s does not catch it; others do: %v", m.law, others)
		})
	}
}

// onState returns a mutant that advances a changed state. If undo is not nil, it reverts the change
// in the outcome.
func onState(name, law string, change func(*State, Input), undo func(before State, out *State)) mutant {
	return mutant{name, law, func(s State, in Input, f Facts) (Outcome, error) {
		other := s.clone()
		change(&other, in)
		out, err := Advance(other, in, f)
		if undo != nil {
			undo(s, &out.State)
		}
		return out, err
	}}
}

// onFacts returns a mutant that receives changed facts.
func onFacts(name, law string, change func(Input, *Facts)) mutant {
	return mutant{name, law, func(s State, in Input, f Facts) (Outcome, error) {
		change(in, &f)
		return Advance(s, in, f)
	}}
}

// onOutcome returns a mutant with a changed outcome.
func onOutcome(name, law string, change func(before State, in Input, out *Outcome)) mutant {
	return mutant{name, law, func(s State, in Input, f Facts) (Outcome, error) {
		out, err := Advance(s, in, f)
		if err == nil && out.Need.IsZero() {
			out.State = out.State.clone()
			change(s, in, &out)
		}
		return out, err
	}}
}

func queueMutants() []mutant {
	calls := 0
	return []mutant{
		onOutcome("changes its argument", "1", func(s State, _ Input, _ *Outcome) {
			if len(s.Runs) > 1 {
				s.Runs[0].Index++
			}
		}),
		{"counts its calls", "1", func(s State, in Input, f Facts) (Outcome, error) {
			calls++
			f.ID += string(rune('a' + calls%2))
			return Advance(s, in, f)
		}},
		onOutcome("starts each run that asks", "2", func(_ State, in Input, out *Outcome) {
			if _, asks := in.(TurnAsked); asks && out.Turn.WaitsFor != "" {
				out.Turn.Starts = true
			}
		}),
		onOutcome("starts at an old epoch", "2", func(_ State, _ Input, out *Outcome) { out.Turn.Retake = false }),
		onOutcome("keeps a run that ended in its place", "3", func(s State, in Input, out *Outcome) {
			if _, ended := in.(RunEnded); ended {
				out.State.Queue = s.Queue
			}
		}),
		onOutcome("keeps a deleted run in the queue", "3", func(s State, in Input, out *Outcome) {
			if _, deleted := in.(RunDeleted); deleted {
				out.State.Queue = s.Queue
			}
		}),
		onOutcome("starts a failed run again by itself", "3", func(_ State, in Input, out *Outcome) {
			if _, retried := in.(RetryAsked); retried || !out.Changed {
				return
			}
			for i := range out.State.Runs {
				if r := &out.State.Runs[i]; r.Ended == stages.Failed && r.Nth < out.State.Ended {
					r.Ended, r.Nth = "", 0
				}
			}
		}),
		onOutcome("puts a new run before those that wait", "6", func(_ State, in Input, out *Outcome) {
			if _, admitted := in.(RunAdmitted); admitted && out.Changed {
				q := slices.Clone(out.State.Queue.Waiting)
				slices.Reverse(q)
				out.State.Queue.Waiting = q
			}
		}),
		onOutcome("lets a superseded run wait again", "6", func(_ State, _ Input, out *Outcome) {
			q := &out.State.Queue
			for len(q.Superseded) > 0 && out.Changed {
				e := q.Superseded[0]
				if q.Active == nil || q.Active.UID != e.UID {
					q.Waiting = append(slices.Clone(q.Waiting), e.Entry)
				}
				q.Superseded = q.Superseded[1:]
			}
		}),
		onOutcome("commands no run to make way", "11", func(_ State, _ Input, out *Outcome) {
			out.After = slices.DeleteFunc(out.After, func(e Effect) bool { _, is := e.(Supersede); return is })
		}),
		onFacts("waits for runs that are gone", "11", func(in Input, f *Facts) {
			if _, ended := in.(RunEnded); ended {
				return
			}
			f.Runs = maps.Clone(f.Runs)
			for uid, fact := range f.Runs {
				if a, admits := in.(RunAdmitted); fact.Ended || fact.Found == Absent && (!admits || a.UID != uid) {
					f.Runs[uid] = RunFact{Found: Unreadable}
				}
			}
		}),
	}
}

func runMutants() []mutant {
	return []mutant{
		onFacts("forgets what a run brought whose engine died", "7", func(in Input, f *Facts) {
			if _, asks := in.(TurnAsked); !asks {
				return
			}
			f.Runs = maps.Clone(f.Runs)
			for uid, fact := range f.Runs {
				if fact.Ended {
					f.Runs[uid] = RunFact{Found: Present, Ended: true, Attempt: fact.Attempt, Epoch: fact.Epoch, Lost: true}
				}
			}
		}),
		onState("takes a run in each time it is told", "7", func(s *State, in Input) {
			if e, ended := in.(RunEnded); ended {
				if r := s.entry(e.UID); r != nil && r.Ended != "" {
					r.Ended, r.Restart = "", 0
				}
			}
		}, nil),
		onState("takes a restart for an attempt", "7", func(s *State, in Input) {
			if e, ended := in.(RunEnded); ended {
				if r := s.entry(e.UID); r != nil {
					r.Restart = 0
				}
			}
		}, nil),
		onFacts("believes that every cluster is gone", "7", func(_ Input, f *Facts) {
			if f.Inventory != nil {
				f.Inventory = map[string]bool{}
			}
		}),
		{"takes what was tried for proven", "7", func(s State, in Input, f Facts) (Outcome, error) {
			if e, ended := in.(RunEnded); ended {
				e.Result.Clusters = slices.Clone(e.Result.Clusters)
				for i := range e.Result.Clusters {
					if e.Result.Clusters[i].Got == Attempted {
						e.Result.Clusters[i].Got = Proven
					}
				}
				in = e
			}
			return Advance(s, in, f)
		}},
		{"takes a deleted run for one that did nothing", "7", func(s State, in Input, f Facts) (Outcome, error) {
			if d, deleted := in.(RunDeleted); deleted {
				d.Started = false
				in = d
			}
			return Advance(s, in, f)
		}},
		onFacts("lets an older engine record an end", "2", func(in Input, f *Facts) {
			if e, ended := in.(RunEnded); ended && f.Runs != nil {
				f.Runs = maps.Clone(f.Runs)
				fact := f.Runs[e.UID]
				fact.Epoch = e.Epoch
				f.Runs[e.UID] = fact
			}
		}),
		onOutcome("does not store the bindings", "10", func(_ State, _ Input, out *Outcome) {
			out.Before = nil
		}),
		onOutcome("does not say which generation it made", "7", func(s State, _ Input, out *Outcome) { out.State.Bindings = s.Bindings }),
		onOutcome("forgets that it was told", "5", func(s State, in Input, out *Outcome) {
			if a, admitted := in.(RunAdmitted); admitted && out.Changed && a.Hold {
				out.State.Runs = s.Runs
			}
		}),
	}
}

func retentionMutants() []mutant {
	without := func(change func(*State)) func(*State, Input) {
		return func(s *State, _ Input) { change(s) }
	}
	return []mutant{
		onOutcome("drops the snapshot of a cluster", "4", func(_ State, in Input, out *Outcome) {
			if n := len(out.State.Snapshots); out.Changed && n > 1 {
				out.State.Snapshots = slices.Clone(out.State.Snapshots[1:])
			}
		}),
		onOutcome("drops the latest snapshot", "4", func(_ State, in Input, out *Outcome) {
			if _, ended := in.(RunEnded); ended && len(out.State.Snapshots) > 1 && out.Changed {
				out.State.Snapshots = out.State.Snapshots[:len(out.State.Snapshots)-1]
			}
		}),
		onState("does not keep what clusters had", "4", without(func(s *State) {
			if s.Base != nil {
				b := *s.Base
				b.InUse = nil
				s.Base = &b
			}
		}), nil),
		onOutcome("retires runs without a trace", "3", func(_ State, in Input, out *Outcome) {
			if _, is := in.(Collected); !is {
				out.State.Retired = nil
			}
		}),
	}
}

func rollbackMutants() []mutant {
	return []mutant{
		onState("takes a run back twice", "5", func(s *State, in Input) {
			if q, asked := in.(RollbackRequested); asked {
				if b := s.Rollback; b != nil && b.Of == q.UID {
					s.Rollback, s.Queue = nil, Queue{}
				}
			}
		}, nil),
		onOutcome("takes back to what clusters have", "9", func(s State, _ Input, out *Outcome) {
			if b := out.State.Base; b != nil && out.Changed && out.State.Bindings != s.Bindings {
				c := *b
				c.Bindings = out.State.Bindings
				out.State.Base = &c
			}
		}),
		onState("takes a run back that others have changed clusters after", "9", func(s *State, in Input) {
			if q, asked := in.(RollbackRequested); asked && s.Base != nil {
				b := *s.Base
				b.UID = q.UID
				s.Base = &b
			}
		}, nil),
		onOutcome("does not drop a rollback that was admitted", "1", func(s State, in Input, out *Outcome) {
			if _, admitted := in.(RunAdmitted); admitted {
				out.State.Rollback = s.Rollback
			}
		}),
		onOutcome("asks again", "5", func(s State, in Input, out *Outcome) {
			if _, asked := in.(RollbackAbandoned); asked && out.Changed {
				out.State.Rollback, out.State.Queue = s.Rollback, s.Queue
				for i := range out.State.Runs {
					out.State.Runs[i].RollbackRefused += "."
				}
			}
		}),
	}
}

func deletionMutants() []mutant {
	open := func(is func(Input) bool) func(*State, Input) {
		return func(s *State, in Input) {
			if is(in) {
				s.Deleting = nil
			}
		}
	}
	again := func(before State, out *State) {
		if before.Deleting != nil {
			out.Deleting = before.Deleting
		}
	}
	return []mutant{
		onState("admits runs while it is deleted", "8", open(func(in Input) bool { a, is := in.(RunAdmitted); return is && a.Run != deletionRun }), again),
		onState("takes snapshots while it is deleted", "8", open(func(in Input) bool { _, is := in.(SnapshotTaken); return is }), again),
		onState("takes back while it is deleted", "8", open(func(in Input) bool { _, is := in.(RollbackRequested); return is }), again),
		onOutcome("keeps something in the end", "8", func(s State, in Input, out *Outcome) {
			if _, is := in.(Emptied); is && out.Changed {
				out.State.Snapshots = s.Snapshots
			}
		}),
		onState("begins the deletion again", "5", open(func(in Input) bool { _, is := in.(DeleteRequested); return is }), nil),
		onState("lets other runs go first when it is deleted", "8", open(func(in Input) bool { _, is := in.(SelectionChanged); return is }), again),
	}
}
