package values

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ParseLimit reads a number or a percentage. It returns false if the value is neither, or out of
// range.
func ParseLimit(v intstr.IntOrString, least int) (n int, percent, ok bool) {
	switch v.Type {
	case intstr.Int:
		n, ok = int(v.IntVal), true
	case intstr.String:
		n, ok = parsePercent(v.StrVal)
		percent = true
	}
	return n, percent, ok && n >= least
}

func parsePercent(s string) (int, bool) {
	digits, ok := strings.CutSuffix(s, "%")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n <= 100 && strconv.Itoa(n) == digits
}

// CheckLimit checks a number or a percentage that must be at least least.
func CheckLimit(at *field.Path, v *intstr.IntOrString, least int) field.ErrorList {
	if v == nil {
		return nil
	}
	if _, _, ok := ParseLimit(*v, least); ok {
		return nil
	}
	low := strconv.Itoa(least)
	return field.ErrorList{field.Invalid(at, v.String(),
		"must be a number of at least "+low+", or a percentage from "+low+`% to 100% in the form "25%"`)}
}

// ResolveConcurrency resolves a valid limit over size clusters: a percentage is
// rounded down, but is at least 1.
func ResolveConcurrency(v *intstr.IntOrString, size, unset int) int {
	if v == nil {
		return unset
	}
	n, percent, _ := ParseLimit(*v, 1)
	if percent {
		return max(1, size*n/100)
	}
	return n
}

// ResolveFailures resolves a valid budget over size clusters: a percentage is
// rounded up.
func ResolveFailures(v *intstr.IntOrString, size, unset int) int {
	if v == nil {
		return unset
	}
	n, percent, _ := ParseLimit(*v, 0)
	if percent {
		return (size*n + 99) / 100
	}
	return n
}
