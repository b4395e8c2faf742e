package step

import (
	"slices"
	"testing"
)

// A duplicate position is found whether the positions ascend, are rotated, or are unordered.
func TestDuplicatePositionIsFound(t *testing.T) {
	for _, tt := range []struct {
		positions []int
		want      int
	}{
		{nil, -1},
		{[]int{3}, -1},
		{[]int{3, 4, 5, 0, 1}, -1},
		{[]int{5, 1, 4, 2}, -1},
		{[]int{3, 3}, 3},
		{[]int{3, 4, 5, 0, 3}, 3},
		{[]int{3, 4, 5, 0, 4}, 4},
		{[]int{0, 2, 1, 2}, 2},
		{[]int{3, 5, 1, 1}, 1},
	} {
		if got := twice(slices.Clone(tt.positions)); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.positions, got, tt.want)
		}
	}
}
