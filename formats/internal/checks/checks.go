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
	"strconv"
	"time"

	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
)

// Form is the written form of a check.
type Form struct {
	Name                  string      `json:"name"`
	Provider              string      `json:"provider,omitempty"`
	Query                 string      `json:"query,omitempty"`
	Object                string      `json:"object,omitempty"`
	Cluster               string      `json:"cluster,omitempty"`
	ClusterLabel          string      `json:"clusterLabel,omitempty"`
	Min                   *float64    `json:"min,omitempty"`
	Max                   *float64    `json:"max,omitempty"`
	InitialDelay          string      `json:"initialDelay,omitempty"`
	Interval              string      `json:"interval,omitempty"`
	Count                 int         `json:"count,omitempty"`
	FailureLimit          int         `json:"failureLimit,omitempty"`
	InconclusiveLimit     int         `json:"inconclusiveLimit,omitempty"`
	ConsecutiveErrorLimit *int        `json:"consecutiveErrorLimit,omitempty"`
	Empty                 check.Phase `json:"empty,omitempty"`
	Expires               string      `json:"expires,omitempty"`
}

// FormsOf returns the forms of checks.
func FormsOf(all []check.Check) []Form {
	var out []Form
	for i := range all {
		c := &all[i]
		out = append(out, Form{
			Name: c.Name, Provider: c.Provider, Query: c.Query, Object: c.Object, Cluster: c.Cluster, ClusterLabel: c.ClusterLabel, Min: c.Min, Max: c.Max,
			InitialDelay: period(c.InitialDelay), Interval: period(c.Interval), Count: c.Count, FailureLimit: c.FailureLimit,
			InconclusiveLimit: c.InconclusiveLimit, ConsecutiveErrorLimit: c.ConsecutiveErrorLimit, Empty: c.Empty, Expires: period(c.Expires),
		})
	}
	return out
}

// period formats a duration in hours, minutes and seconds, because the formats read that form.
func period(d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d < time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
	default:
		return d.String()
	}
}

// OfTasks returns the checks of the tasks.
func OfTasks(tasks []stages.Task) (out []check.Check) {
	for i := range tasks {
		out = append(out, tasks[i].Checks...)
	}
	return out
}

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
		"initialDelay":      func(v value) { c.InitialDelay = v.Duration() },
		"interval":          func(v value) { c.Interval = v.Period() },
		"count":             func(v value) { c.Count = v.AtLeast(1) },
		"failureLimit":      func(v value) { c.FailureLimit = v.AtLeast(0) },
		"inconclusiveLimit": func(v value) { c.InconclusiveLimit = v.AtLeast(0) },
		"consecutiveErrorLimit": func(v value) {
			n := v.AtLeast(0)
			c.ConsecutiveErrorLimit = &n
		},
		"empty":   func(v value) { c.Empty = yamldoc.OneOf(v, check.Successful, check.Failed, check.Inconclusive) },
		"expires": func(v value) { c.Expires = v.Period() },
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
