package scenario

import (
	"slices"
	"strconv"

	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
	"github.com/slipway-dev/slipway/stages/simulate"
)

// measure reads the result that a check has at a time and later: a number, none, or an unreachable
// provider.
func (r *reader) measure(v value) {
	var m simulate.Measure
	v.Object(fields{
		"from":    func(v value) { m.From = v.Duration() },
		"check":   func(v value) { m.Check = v.NonEmpty() },
		"cluster": func(v value) { m.Cluster = v.NonEmpty() },
		"value":   func(v value) { m.Answer = answer(v) },
	}, "check", "value")
	r.out.Environment.Measures = append(r.out.Environment.Measures, m)
	r.measures = append(r.measures, v)
}

func answer(v value) check.Answer {
	x, ok := v.Scalar()
	switch x := x.(type) {
	case int64:
		return check.Answer{Values: []float64{float64(x)}}
	case float64:
		return check.Answer{Values: []float64{x}}
	case string:
		switch x {
		case "empty":
			return check.Answer{}
		case "down":
			return check.Answer{Err: "the provider is down"}
		case "NaN":
			nan, _ := strconv.ParseFloat(x, 64)
			return check.Answer{Values: []float64{nan}}
		}
	}
	if ok {
		v.Fail("must be a number, NaN, empty or down, not %s", v.Describe())
	}
	return check.Answer{}
}

// checkMeasures checks that the checks and the clusters of measures exist.
func (r *reader) checkMeasures() {
	var names []string
	add := func(list []check.Check) {
		for i := range list {
			names = append(names, list[i].Name)
		}
	}
	tasks := func(list []stages.Task) {
		for i := range list {
			add(list[i].Checks)
		}
	}
	for i := range r.out.Strategy.Stages {
		st := &r.out.Strategy.Stages[i]
		add(st.Checks)
		add(st.ClusterChecks)
		tasks(st.Before)
		tasks(st.After)
		for j := range st.Groups {
			tasks(st.Groups[j].Before)
			tasks(st.Groups[j].After)
		}
	}
	for i := range r.out.Environment.Measures {
		m := &r.out.Environment.Measures[i]
		if m.Check != "" && !slices.Contains(names, m.Check) && !r.Failed("strategy") {
			r.measures[i].Place("check").Fail("the strategy has no check %s", yamldoc.Clip(m.Check))
		}
		if _, there := r.names[m.Cluster]; m.Cluster != "" && !there {
			r.measures[i].Place("cluster").Fail("there is no cluster %s", yamldoc.Clip(m.Cluster))
		}
	}
}
