// Package checks reads and writes the checks of a strategy in the files of other systems, which
// have none of their own. They are the same objects in all of them, in the terms of a metric of
// Argo Rollouts:
//
//	name: errors
//	provider: prometheus        # the only one of the host where absent
//	query: sum(rate(errors[{{window}}]))
//	max: 0.01                   # min, max or both
//	initialDelay: 30s
//	interval: 10s
//	count: 5
//	failureLimit: 1
//	inconclusiveLimit: 3
//	consecutiveErrorLimit: 4
//	empty: Inconclusive         # or Successful, Failed
//	expires: 1h
//	clusterLabel: cluster       # of a check of clusters
package checks

import (
	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/stages/check"
)

type (
	value  = yamldoc.Value
	fields = yamldoc.Fields
)

// Read reads a list of checks. It leaves the rules that a strategy checks to the strategy.
func Read(v yamldoc.Value) []check.Check { return yamldoc.List(v, read) }

func read(v value) check.Check {
	var c check.Check
	v.Object(fields{
		"name":              func(v value) { c.Name = v.Str() },
		"provider":          func(v value) { c.Provider = v.Str() },
		"query":             func(v value) { c.Query = v.Str() },
		"object":            func(v value) { c.Object = v.Str() },
		"cluster":           func(v value) { c.Cluster = v.Str() },
		"clusterLabel":      func(v value) { c.ClusterLabel = v.Str() },
		"min":               func(v value) { c.Min = number(v) },
		"max":               func(v value) { c.Max = number(v) },
		"initialDelay":      func(v value) { c.InitialDelay.Duration = v.Duration() },
		"interval":          func(v value) { c.Interval.Duration = v.Period() },
		"count":             func(v value) { c.Count = v.AtLeast(1) },
		"failureLimit":      func(v value) { c.FailureLimit = v.AtLeast(0) },
		"inconclusiveLimit": func(v value) { c.InconclusiveLimit = v.AtLeast(0) },
		"consecutiveErrorLimit": func(v value) {
			n := v.AtLeast(0)
			c.ConsecutiveErrorLimit = &n
		},
		"empty":   func(v value) { c.Empty = yamldoc.OneOf(v, check.Successful, check.Failed, check.Inconclusive) },
		"expires": func(v value) { c.Expires.Duration = v.Period() },
	}, "name")
	return c
}

// number reads a number with or without a fraction.
func number(v value) *float64 {
	x, ok := v.Scalar()
	if !ok {
		return nil
	}
	var out float64
	switch x := x.(type) {
	case int64:
		out = float64(x)
	case float64:
		out = x
	default:
		v.Fail("must be a number, not %s", v.Describe())
		return nil
	}
	return &out
}
