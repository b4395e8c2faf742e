package oam

import (
	"slices"
	"strconv"
)

func itoa(i int) string { return strconv.Itoa(i) }

// subMode returns the order of the steps in a group.
func (s *Step) subMode(of Mode) ExecuteMode {
	switch {
	case s.Mode != "":
		return s.Mode
	case of.SubSteps != "":
		return of.SubSteps
	default:
		return DAG
	}
}

// cycle returns the name of a step in a dependency cycle, or of a step that depends on one, or
// "". Dependencies are looked up by name, and a step is done when all of them are.
func cycle(steps []Step) string {
	at := make(map[string]int, len(steps))
	for i := range steps {
		at[steps[i].Name] = i
	}
	waits, before := make([]int, len(steps)), make([][]int, len(steps))
	var free []int
	for i := range steps {
		for _, on := range steps[i].DependsOn {
			if j, ok := at[on]; ok {
				waits[i]++
				before[j] = append(before[j], i)
			}
		}
		if waits[i] == 0 {
			free = append(free, i)
		}
	}
	for len(free) > 0 {
		done := free[len(free)-1]
		free = free[:len(free)-1]
		for _, i := range before[done] {
			if waits[i]--; waits[i] == 0 {
				free = append(free, i)
			}
		}
	}
	if left := slices.IndexFunc(waits, func(n int) bool { return n > 0 }); left >= 0 {
		return steps[left].Name
	}
	return ""
}

func isStep(steps []Step, name string) bool {
	return slices.ContainsFunc(steps, func(s Step) bool { return s.Name == name })
}
