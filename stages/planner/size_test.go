package planner_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/stages"
)

// allocated returns the number of bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// large has strategies with n stages or groups that are hard to check. With a quadratic check the
// largest of them take hours.
var large = map[string]func(n int) stages.Strategy{
	"stages": func(n int) stages.Strategy {
		return manyStages(n, func(i int) stages.Stage { return stages.Stage{Name: fmt.Sprintf("s%d", i)} })
	},
	"problems": func(n int) stages.Strategy {
		return manyStages(n, func(i int) stages.Stage {
			return stages.Stage{Name: fmt.Sprintf("S%d", i), MaxConcurrency: new(intstr.FromInt32(0))}
		})
	},
	"approvals": func(n int) stages.Strategy {
		return manyStages(n, func(i int) stages.Stage {
			return stages.Stage{Name: fmt.Sprintf("s%d", i), After: []stages.Task{{Type: stages.Approval}}}
		})
	},
	"requests of one name": func(n int) stages.Strategy {
		return manyStages(n, func(i int) stages.Stage {
			st := stages.Stage{Name: fmt.Sprintf("before-s%d", i/2), After: []stages.Task{{Type: stages.Approval}}}
			if i%2 == 0 {
				st = stages.Stage{Name: fmt.Sprintf("s%d", i/2), Before: []stages.Task{{Type: stages.Approval}}}
			}
			return st
		})
	},
	"a chain of groups": func(n int) stages.Strategy { return chain(n, false) },
	"a ring of groups":  func(n int) stages.Strategy { return chain(n, true) },
	"groups of one name": func(n int) stages.Strategy {
		s := chain(n, true)
		for i := range s.Stages[0].Groups {
			g := &s.Stages[0].Groups[i]
			g.Name, g.DependsOn = "g", []string{"g"}
		}
		return s
	},
	"a group that waits for all": func(n int) stages.Strategy {
		s := chain(n, false)
		var names []string
		for i := range s.Stages[0].Groups {
			g := &s.Stages[0].Groups[i]
			g.DependsOn = nil
			names = append(names, g.Name)
		}
		s.Stages[0].Groups[0].DependsOn = names[1:]
		return s
	},
}

func manyStages(n int, stage func(i int) stages.Stage) stages.Strategy {
	s := stages.Strategy{Stages: make([]stages.Stage, n)}
	for i := range s.Stages {
		s.Stages[i] = stage(i)
	}
	return s
}

// chain returns a stage of groups that each wait for the next. If it is closed, the last group
// waits for the first.
func chain(n int, closed bool) stages.Strategy {
	groups := make([]stages.Group, n)
	for i := range groups {
		groups[i].Name = fmt.Sprintf("g%d", i)
		if i > 0 {
			groups[i-1].DependsOn = []string{groups[i].Name}
		}
	}
	if closed {
		groups[n-1].DependsOn = []string{groups[0].Name}
	}
	return stages.Strategy{Profile: stages.Workflow, Stages: []stages.Stage{{Name: "s", Groups: groups}}}
}

// Checking a strategy that is ten times as large takes ten times the memory, and ends.
func TestCheckingAStrategyIsLinear(t *testing.T) {
	check := func(s stages.Strategy) uint64 {
		return allocated(func() {
			if err := s.Validate(); err != nil {
				_ = err.Error()
			}
		})
	}
	for name, of := range large {
		t.Run(name, func(t *testing.T) {
			small, big := check(of(1_000)), check(of(10_000))
			if big > 20*small {
				t.Errorf("ten times the strategy allocates %d bytes, the other one %d: %.1f times", big, small, float64(big)/float64(small))
			}
			if slices.Contains([]string{"approvals", "a chain of groups", "a group that waits for all"}, name) {
				check(of(200_000))
			}
		})
	}
}

func TestGroupsThatWaitForEachOtherAreFound(t *testing.T) {
	for _, n := range []int{1, 2, 3, 100} {
		s := chain(n, true)
		slices.Reverse(s.Stages[0].Groups)
		if err := s.Validate(); err == nil {
			t.Errorf("a ring of %d groups is valid", n)
		}
		if err := chain(n, false).Validate(); err != nil {
			t.Errorf("a chain of %d groups: %v", n, err)
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	for _, name := range []string{"stages", "problems"} {
		for _, n := range []int{6_000, 60_000} {
			s := large[name](n)
			b.Run(fmt.Sprintf("%s=%d", name, n), func(b *testing.B) {
				for b.Loop() {
					if err := s.Validate(); err != nil {
						_ = err.Error()
					}
				}
			})
		}
	}
}
