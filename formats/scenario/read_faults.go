package scenario

import (
	"cmp"
	"slices"
	"time"

	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/stages/simulate"
)

// fault is an entry of faults.
type fault struct {
	at      value
	cluster value
	name    string
	member  simulate.Member
	// back reports whether the fault applies only during a rollback.
	back bool
	// says has the fields that are set.
	says map[string]value
}

// fault reads an entry of faults.
func (r *reader) fault(v value) {
	f := fault{at: v, says: map[string]value{}}
	from, long := time.Duration(0), time.Duration(0)
	var during value
	says := func(name string, read func(value)) func(value) {
		return func(v value) {
			f.says[name] = v
			read(v)
		}
	}
	ok := v.Object(fields{
		"cluster":     func(v value) { f.cluster, f.name = v, v.NonEmpty() },
		"fail":        says("fail", func(v value) { f.member.Fail = fails(v) }),
		"unreachable": says("unreachable", func(v value) { f.member.Unreachable = interval(v) }),
		"unhealthyAt": says("unhealthyAt", func(v value) { from = v.Duration() }),
		"for":         says("for", func(v value) { long = v.Period() }),
		"take":        says("take", func(v value) { f.member.Take = v.Duration() }),
		"during":      func(v value) { during, f.back = v, yamldoc.OneOf(v, "rollback") == "rollback" },
	}, "cluster")
	_, unhealthy := f.says["unhealthyAt"]
	lasting, lasts := f.says["for"]
	switch {
	case !ok:
		return
	case lasts && !unhealthy:
		lasting.Fail("is how long a cluster is unhealthy; write unhealthyAt too")
	case len(f.says) == 0:
		v.Fail("says nothing; write fail, unreachable, unhealthyAt or take")
	case unhealthy:
		i := simulate.Interval{From: from}
		if lasts {
			i.To = from + long
		}
		f.member.Unhealthy = []simulate.Interval{i}
	}
	if f.back {
		r.saidHad = append(r.saidHad, during)
		f.checkReturn()
	}
	r.faults = append(r.faults, f)
}

// fails reads the number of failing attempts.
func fails(v value) int {
	if v.IsString() && v.Node.Value == "always" {
		return simulate.Always
	}
	if v.IsString() {
		v.Fail("must be a number of attempts or always, not %q", yamldoc.Clip(v.Node.Value))
		return 0
	}
	return v.Integer(0, maxAttempts)
}

// interval reads a beginning and an end.
func interval(v value) []simulate.Interval {
	ends := yamldoc.List(v, value.Duration)
	switch {
	case !v.OK():
	case len(ends) != 2:
		v.Fail("must be two times, the beginning and the end, for example [1m, 5m]")
	case ends[1] <= ends[0] && v.Place("[0]").OK() && v.Place("[1]").OK():
		v.Fail("ends at %s and begins at %s; it must end later", ends[1], ends[0])
	default:
		return []simulate.Interval{{From: ends[0], To: ends[1]}}
	}
	return nil
}

// checkFaults assigns the faults to the clusters; one cluster may have several entries.
func (r *reader) checkFaults() {
	said := map[string]map[string]int{}
	members := map[string]simulate.Member{}
	for i := range r.faults {
		f := &r.faults[i]
		if f.name == "" || f.back || !r.knows(f) {
			continue
		}
		if said[f.name] == nil {
			said[f.name] = map[string]int{}
			members[f.name] = r.out.Environment.Default
		}
		r.once(f, said[f.name])
		members[f.name] = f.over(members[f.name])
	}
	if len(members) > 0 {
		r.out.Environment.Members = members
	}
	r.returning()
}

// knows returns false for a fault of a cluster that never exists, and reports it.
func (r *reader) knows(f *fault) bool {
	_, known := r.names[f.name]
	known = known || slices.ContainsFunc(r.churn, func(c change) bool { return c.verb == "add" && c.name == f.name })
	if !known {
		f.cluster.Fail("there is no cluster %s in the scenario", yamldoc.Clip(f.name))
	}
	return known
}

// once reports a field that an earlier entry of the cluster has, too.
func (r *reader) once(f *fault, said map[string]int) {
	for _, name := range []string{"fail", "take"} {
		v, says := f.says[name]
		if !says {
			continue
		}
		if line, twice := said[name]; twice {
			v.Fail("cluster %s has this already, on line %d; leave one of the two", yamldoc.Clip(f.name), line)
		}
		said[name] = v.Line()
	}
}

// over returns the member with the fault added.
func (f *fault) over(m simulate.Member) simulate.Member {
	if _, says := f.says["fail"]; says {
		m.Fail = f.member.Fail
	}
	if _, says := f.says["take"]; says {
		m.Take = f.member.Take
	}
	m.Unreachable = append(slices.Clip(m.Unreachable), f.member.Unreachable...)
	m.Unhealthy = append(slices.Clip(m.Unhealthy), f.member.Unhealthy...)
	return m
}

// change is an entry of churn.
type change struct {
	at   time.Duration
	verb string
	// name is the cluster's name, named its place.
	name  string
	named value
}

// change reads an entry of churn.
func (r *reader) change(v value) {
	var c change
	known := r.Count()
	var said []string
	verb := func(name string) func(value) {
		return func(v value) {
			said = append(said, name)
			c.verb, c.name, c.named = name, v.NonEmpty(), v
		}
	}
	var labels *value
	ok := v.Object(fields{
		"at": func(v value) { c.at = v.Duration() }, "remove": verb("remove"), "add": verb("add"), "relabel": verb("relabel"),
		"labels": func(v value) { labels = &v; v.StringMap() },
	}, "at")
	switch {
	case !ok:
		return
	case len(said) != 1:
		v.Fail("must say one of remove, add and relabel")
		return
	case labels != nil && c.verb == "remove":
		labels.Fail("is only for add and relabel")
	case labels == nil && c.verb == "relabel":
		v.Place("labels").Fail("is required")
	}
	if r.Count() == known { // after a problem the change is not applied
		r.churn = append(r.churn, c)
	}
}

// checkChurn checks the changes in the order of time: a cluster must exist, or must not.
func (r *reader) checkChurn() {
	there := map[string]bool{}
	for name := range r.names {
		there[name] = true
	}
	slices.SortStableFunc(r.churn, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	for _, c := range r.churn {
		switch {
		case c.verb == "add" && there[c.name]:
			c.named.Fail("cluster %s is there already", yamldoc.Clip(c.name))
		case c.verb != "add" && !there[c.name]:
			c.named.Fail("there is no cluster %s at %s", yamldoc.Clip(c.name), c.at)
		case c.verb != "relabel":
			there[c.name] = c.verb == "add"
			r.out.Environment.Churn = append(r.out.Environment.Churn, simulate.Change{At: c.at, Cluster: c.name, Back: c.verb == "add"})
		}
	}
}
