package scenario

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/formats/azure"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages/calendar"
)

// RegionLabel is the label of a cluster that has the name of its region.
const RegionLabel = "topology.kubernetes.io/region"

// maxCount is how many clusters there are at most.
const maxCount = 100_000

// member is what an entry of clusters or of count says.
type member struct {
	labels map[string]string
	level  calendar.Level
	before history
}

// reads has the fields that clusters and counts share.
func (m *member) reads(more fields) fields {
	m.labels = map[string]string{}
	more["labels"] = func(v value) { m.add(v, v.stringMap()) }
	more["group"] = func(v value) { m.add(v, map[string]string{azure.UpdateGroupLabel: v.str()}) }
	more["region"] = func(v value) { m.add(v, map[string]string{RegionLabel: v.str()}) }
	more["timeZone"] = func(v value) { m.level.TimeZone = v.str() }
	more["windows"] = func(v value) { m.level.Windows = v.windows() }
	more["freezes"] = func(v value) { m.level.Freezes = v.freezes() }
	m.before.reads(more)
	return more
}

// add adds labels, of which each may be said twice and not in two ways.
func (m *member) add(v value, labels map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		is := labels[key]
		if was, ok := m.labels[key]; ok && was != is {
			v.fail("says that label %s is %q, and another field says %q", key, clip(is), clip(was))
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
	if !v.object(m.reads(fields{"name": func(v value) { name = v }}), "name") || name.node == nil {
		return
	}
	if s := name.str(); s != "" {
		for _, msg := range validation.IsDNS1123Label(s) {
			name.fail("%q: %s", clip(s), msg)
		}
		r.take(name, s, m)
	}
	r.checkLevel(v, &m.level)
	r.checkHistory(v, &m.before)
}

// count reads what generates clusters, or a list of such.
func (r *reader) count(v value) {
	read := func(v value) {
		var m member
		prefix, n := "", 0
		r.named = true
		v.object(m.reads(fields{
			"prefix": func(v value) { prefix = v.str() },
			"n":      func(v value) { n = v.integer(1, maxCount) },
		}), "prefix", "n")
		r.checkLevel(v, &m.level)
		r.checkHistory(v, &m.before)
		if prefix == "" || n == 0 {
			return
		}
		for _, msg := range validation.IsDNS1123Label(prefix + strconv.Itoa(n)) {
			v.at(v.node, "prefix").fail("a cluster would be called %q: %s", clip(prefix+strconv.Itoa(n)), msg)
			return
		}
		for i := range n {
			if !r.take(v, prefix+strconv.Itoa(i+1), m) {
				return // mostly the others are there too
			}
		}
	}
	if v.node.Kind == yaml.SequenceNode {
		v.list(read)
		return
	}
	read(v)
}

// take adds a cluster that is named at v; false tells that its name is taken.
func (r *reader) take(v value, name string, m member) bool {
	if was, twice := r.names[name]; twice {
		v.fail("cluster %s is there already, on line %d", clip(name), was.line)
		return false
	}
	if len(r.names) == maxCount {
		v.fail("makes more than %d clusters", maxCount)
		return false
	}
	r.names[name] = origin{v.node.Line, v.path}
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

// checkLevel reports what is wrong with the windows and freezes at v.
func (r *reader) checkLevel(v value, l *calendar.Level) {
	var at *field.Path
	if v.path != "" {
		at = field.NewPath(v.path)
	}
	r.fieldProblems(l.Problems(at), func(path string) string { return path })
}

func (v value) windows() (out []calendar.Window) {
	v.list(func(v value) {
		var w calendar.Window
		v.object(fields{
			"rrule":    func(v value) { w.RRule = v.str() },
			"start":    func(v value) { w.Start = v.str() },
			"duration": func(v value) { w.Duration = metav1.Duration{Duration: v.some()} },
			"timeZone": func(v value) { w.TimeZone = v.str() },
		}, "rrule", "duration")
		out = append(out, w)
	})
	return out
}

func (v value) freezes() (out []calendar.Freeze) {
	v.list(func(v value) {
		var f calendar.Freeze
		v.object(fields{
			"name":     func(v value) { f.Name = v.str() },
			"reason":   func(v value) { f.Reason = v.str() },
			"from":     func(v value) { f.From = v.str() },
			"until":    func(v value) { f.Until = v.str() },
			"rrule":    func(v value) { f.RRule = v.str() },
			"start":    func(v value) { f.Start = v.str() },
			"duration": func(v value) { f.Duration = metav1.Duration{Duration: v.some()} },
			"timeZone": func(v value) { f.TimeZone = v.str() },
		})
		out = append(out, f)
	})
	return out
}

// fieldErrors reports the field errors in an error, see fieldProblems.
func (r *reader) fieldErrors(err error, place func(string) string) {
	var agg utilerrors.Aggregate
	if !errors.As(err, &agg) {
		r.report(r.root.node.Line, "", err.Error())
		return
	}
	var errs field.ErrorList
	for _, e := range agg.Errors() {
		if fe := (*field.Error)(nil); errors.As(e, &fe) {
			errs = append(errs, fe)
		}
	}
	r.fieldProblems(errs, place)
}

// fieldProblems reports field errors where nothing was reported before: place
// turns their paths into those of the document.
func (r *reader) fieldProblems(errs field.ErrorList, place func(string) string) {
	for _, e := range errs {
		if path := place(e.Field); !r.failed(path) {
			r.report(r.root.find(path), path, e.ErrorBody())
		}
	}
}

// planProblems reports why there is no plan. What is wrong with clusters is told
// at the first one.
func (r *reader) planProblems(err error) {
	var agg utilerrors.Aggregate
	if !errors.As(err, &agg) {
		r.report(r.root.find("strategy"), "strategy", err.Error())
		return
	}
	for _, e := range agg.Errors() {
		fe := (*field.Error)(nil)
		if !errors.As(e, &fe) {
			r.report(r.root.find("strategy"), "strategy", e.Error())
			continue
		}
		names, ok := fe.BadValue.([]string)
		if ok && len(names) > 0 {
			first, _, _ := strings.Cut(names[0], "=") // a label may stand behind it
			at := r.names[first]
			r.report(at.line, at.path, some(names)+": "+fe.Detail)
			continue
		}
		path := r.place(fe.Field)
		r.report(r.root.find(path), path, fe.ErrorBody())
	}
}

// some lists names: the first ten, and how many more.
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
