package calendar

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/stages"
)

// Rules say when the clusters of a run may be started. The zero value allows it at any time.
// Rules must not change once they are in use, and are then safe for concurrent use.
type Rules struct {
	// TimeZone is the default of every level; empty means UTC.
	TimeZone string `json:"timeZone,omitempty"`
	// Run applies to every cluster.
	Run Level `json:"run,omitzero"`
	// Stages, by the name of the stage.
	Stages map[string]Level `json:"stages,omitempty"`
	// Groups, by the name of the group in every stage, or by <stage>/<group>; if both exist, both
	// must agree.
	Groups map[string]Level `json:"groups,omitempty"`
	// Clusters, by the name of the cluster.
	Clusters map[string]Level `json:"clusters,omitempty"`
}

// Level has the windows and freezes of a run, a stage, a group or a cluster.
type Level struct {
	// TimeZone is the default of the windows and freezes below; empty means the zone of the Rules.
	TimeZone string `json:"timeZone,omitempty"`
	// Windows are times when clusters may be started; none means at any time.
	Windows []Window `json:"windows,omitempty"`
	// Freezes are times when clusters may not be started.
	Freezes []Freeze `json:"freezes,omitempty"`
}

// Window is a recurring time when clusters may be started.
type Window struct {
	// RRule says when the window opens, see the package's documentation.
	RRule string `json:"rrule"`
	// Start is the first local time of the rule, at least in 1970, for example 2026-01-05T02:00 or
	// 2026-01-05T02:00:00; nothing opens before it.
	Start string `json:"start,omitempty"`
	// Duration is the time that the window stays open: more than 0, at most 366 days.
	Duration metav1.Duration `json:"duration"`
	// TimeZone is a name such as Europe/Berlin; empty means the zone of the Level.
	TimeZone string `json:"timeZone,omitempty"`
}

// Freeze is a time when clusters may not be started: either a range, by From and Until, or a
// recurring freeze, by RRule and Duration.
type Freeze struct {
	// Name and Reason are shown to people.
	Name   string `json:"name,omitempty"`
	Reason string `json:"reason,omitempty"`
	// From and Until, which is the first instant after the freeze, are times with an offset (RFC
	// 3339, for example 2026-11-27T00:00:00Z) or local times (2026-11-27T00:00). One of them may be
	// empty: a freeze without Until ends when it is removed from the rules.
	From  string `json:"from,omitempty"`
	Until string `json:"until,omitempty"`
	// RRule, Start and Duration as in Window.
	RRule    string          `json:"rrule,omitempty"`
	Start    string          `json:"start,omitempty"`
	Duration metav1.Duration `json:"duration,omitzero"`
	// TimeZone as in Window.
	TimeZone string `json:"timeZone,omitempty"`
}

// Validate returns all problems of r as one error, each with the path of its field, for example
// clusters[paris].windows[0].rrule; nil if there are none. The error wraps an aggregate of
// [field.Error] values.
func (r Rules) Validate() error {
	return invalid(newBuilder().problems(&r))
}

// Problems returns all problems of l at a path, for a document with levels in other places.
func (l Level) Problems(at *field.Path) field.ErrorList {
	return newBuilder().check(at, &l, "")
}

// For resolves r against a plan. It ignores names that the plan does not have, see
// [Rules.Unused]. If r is invalid, it returns the error of [Rules.Validate].
//
// The calendar keeps the latest answer for each set of rules, so that a repeated question for the
// same time, or for clusters with equal rules, is cheap. It does not keep r.
func (r Rules) For(p *stages.Plan) (stages.Calendar, error) {
	b := newBuilder()
	if problems := b.problems(&r); len(problems) > 0 {
		return nil, invalid(problems)
	}
	return b.calendar(&r, p), nil
}

// Unused returns the paths of the stages, groups and clusters in r that the plan does not have,
// in ascending order. It is for warnings: rules may cover more clusters than one plan has, or a
// name may be misspelt.
func (r Rules) Unused(p *stages.Plan) []string {
	known := sets.New[string]()
	for _, st := range p.Stages {
		known.Insert(path("stages", st.Name))
		for _, g := range st.Groups {
			if g.Name != "" {
				known.Insert(path("groups", g.Name), path("groups", st.Name+"/"+g.Name))
			}
		}
	}
	var unused []string
	r.each(func(levels, name string, _ *Level) {
		at := path(levels, name)
		if _, placed := p.Position(name); placed && levels == "clusters" || known.Has(at) {
			return
		}
		unused = append(unused, at)
	})
	slices.Sort(unused)
	return unused
}

func path(levels, name string) string { return field.NewPath(levels).Key(name).String() }

// each calls do with the levels that have names, in a fixed order.
func (r *Rules) each(do func(levels, name string, l *Level)) {
	for _, of := range []struct {
		levels string
		named  map[string]Level
	}{{"stages", r.Stages}, {"groups", r.Groups}, {"clusters", r.Clusters}} {
		for _, name := range slices.Sorted(maps.Keys(of.named)) {
			l := of.named[name]
			do(of.levels, name, &l)
		}
	}
}

// invalid returns the problems of rules as one error, or nil.
func invalid(problems field.ErrorList) error {
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("calendar rules: %w", problems.ToAggregate())
}
