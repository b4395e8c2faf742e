package scenario

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/formats/azure"
	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages/calendar"
)

// RegionLabel is the label of a cluster with the name of its region.
const RegionLabel = "topology.kubernetes.io/region"

// maxCount is the greatest number of clusters.
const maxCount = 100_000

// member is the content of an entry of clusters or of count.
type member struct {
	labels map[string]string
	level  calendar.Level
	before history
}

// reads has the fields that clusters and counts share.
func (m *member) reads(more fields) fields {
	m.labels = map[string]string{}
	more["labels"] = func(v value) { m.add(v, v.StringMap()) }
	more["group"] = func(v value) { m.add(v, map[string]string{azure.UpdateGroupLabel: v.NonEmpty()}) }
	more["region"] = func(v value) { m.add(v, map[string]string{RegionLabel: v.NonEmpty()}) }
	more["timeZone"] = func(v value) { m.level.TimeZone = v.NonEmpty() }
	more["windows"] = func(v value) { m.level.Windows = windows(v) }
	more["freezes"] = func(v value) { m.level.Freezes = freezes(v) }
	m.before.reads(more)
	return more
}

// add adds labels. A label may be repeated with the same value, but not with another one.
func (m *member) add(v value, labels map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		is := labels[key]
		if was, ok := m.labels[key]; ok && was != is {
			v.Fail("says that label %s is %q, and another field says %q", key, yamldoc.Clip(is), yamldoc.Clip(was))
			return
		}
		m.labels[key] = is
	}
}

// cluster reads an entry of clusters.
func (r *reader) cluster(v value) {
	var m member
	var name value
	r.named = true
	if !v.Object(m.reads(fields{"name": func(v value) { name = v }}), "name") || name.Doc == nil {
		return
	}
	if s := name.Named(validation.IsDNS1123Label); s != "" {
		r.take(name, s, m)
	}
	r.checkLevel(v, &m.level)
	r.checkHistory(v, &m.before)
}

// count reads a generator of clusters, or a list of generators.
func (r *reader) count(v value) {
	read := func(v value) {
		var m member
		prefix, n := "", 0
		r.named = true
		v.Object(m.reads(fields{
			"prefix": func(v value) { prefix = v.NonEmpty() },
			"n":      func(v value) { n = v.Integer(1, maxCount) },
		}), "prefix", "n")
		r.checkLevel(v, &m.level)
		r.checkHistory(v, &m.before)
		if prefix == "" || n == 0 {
			return
		}
		for _, msg := range validation.IsDNS1123Label(prefix + strconv.Itoa(n)) {
			v.Place("prefix").Fail("a cluster would be called %q: %s", yamldoc.Clip(prefix+strconv.Itoa(n)), msg)
			return
		}
		for i := range n {
			if !r.take(v, prefix+strconv.Itoa(i+1), m) {
				return // mostly the others exist, too
			}
		}
	}
	if v.IsList() {
		v.Each(read)
		return
	}
	read(v)
}

// take adds a cluster that is named at v; it returns false if the name is taken.
func (r *reader) take(v value, name string, m member) bool {
	if was, twice := r.names[name]; twice {
		v.Fail("cluster %s is there already, on line %d", yamldoc.Clip(name), was.Line())
		return false
	}
	if len(r.names) == maxCount {
		v.Fail("makes more than %d clusters", maxCount)
		return false
	}
	r.names[name] = v
	r.before(&m.before, name)
	c := placement.Cluster{Name: name}
	if len(m.labels) > 0 {
		c.Labels = m.labels
	}
	r.out.Clusters = append(r.out.Clusters, c)
	if len(m.level.Windows)+len(m.level.Freezes) > 0 {
		if r.out.Rules.Clusters == nil {
			r.out.Rules.Clusters = map[string]calendar.Level{}
		}
		r.out.Rules.Clusters[name] = m.level
	}
	return true
}

// checkLevel reports problems with the windows and freezes at v.
func (r *reader) checkLevel(v value, l *calendar.Level) {
	var at *field.Path
	if v.Path != "" {
		at = field.NewPath(v.Path)
	}
	r.root.Check(l.Problems(at).ToAggregate(), nil)
}

func windows(v value) (out []calendar.Window) {
	v.Each(func(v value) {
		var w calendar.Window
		v.Object(fields{
			"rrule":    func(v value) { w.RRule = v.NonEmpty() },
			"start":    func(v value) { w.Start = v.NonEmpty() },
			"duration": func(v value) { w.Duration = metav1.Duration{Duration: v.Period()} },
			"timeZone": func(v value) { w.TimeZone = v.NonEmpty() },
		}, "rrule", "duration")
		out = append(out, w)
	})
	return out
}

func freezes(v value) (out []calendar.Freeze) {
	v.Each(func(v value) {
		var f calendar.Freeze
		v.Object(fields{
			"name":     func(v value) { f.Name = v.NonEmpty() },
			"reason":   func(v value) { f.Reason = v.NonEmpty() },
			"from":     func(v value) { f.From = v.NonEmpty() },
			"until":    func(v value) { f.Until = v.NonEmpty() },
			"rrule":    func(v value) { f.RRule = v.NonEmpty() },
			"start":    func(v value) { f.Start = v.NonEmpty() },
			"duration": func(v value) { f.Duration = metav1.Duration{Duration: v.Period()} },
			"timeZone": func(v value) { f.TimeZone = v.NonEmpty() },
		})
		out = append(out, f)
	})
	return out
}

// planProblems reports why there is no plan. It reports problems of several clusters at the first
// one.
func (r *reader) planProblems(err error) {
	var agg utilerrors.Aggregate
	if !errors.As(err, &agg) {
		r.root.Place("strategy").Fail("%s", err)
		return
	}
	for _, e := range agg.Errors() {
		fe := (*field.Error)(nil)
		if !errors.As(e, &fe) {
			r.root.Place("strategy").Fail("%s", e)
			continue
		}
		names, ok := fe.BadValue.([]string)
		if ok && len(names) > 0 {
			first, _, _ := strings.Cut(names[0], "=") // a label may follow the name
			r.names[first].Fail("%s: %s", some(names), fe.Detail)
			continue
		}
		r.root.Place(r.place(fe.Field)).Fail("%s", fe.ErrorBody())
	}
}

// some lists names: the first ten, and the number of the others.
func some(names []string) string {
	const most = 10
	if len(names) == 1 {
		return "cluster " + names[0]
	}
	if len(names) <= most {
		return "clusters " + strings.Join(names, ", ")
	}
	return fmt.Sprintf("clusters %s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
