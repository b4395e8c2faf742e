package calendar

import (
	"encoding/json"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/stages"
)

// builder compiles levels. Equal levels give the same object, so that clusters can share it:
// BenchmarkWindow in docs/performance.md makes a calendar of 1,000 clusters with the same windows
// in a tenth of the time of 1,000 different ones.
type builder struct {
	zones  map[string]located
	rules  map[ruleKey]compiled
	levels map[string]*level
}

type located struct {
	loc *time.Location
	err *field.Error
}

type ruleKey struct {
	recurrence
	zone string
}

type compiled struct {
	rule *rule
	errs field.ErrorList
}

// level is a compiled Level.
type level struct {
	windows []source
	freezes []denied
}

func newBuilder() *builder {
	return &builder{zones: map[string]located{}, rules: map[ruleKey]compiled{}, levels: map[string]*level{}}
}

// problems compiles all levels of r and returns the problems.
func (b *builder) problems(r *Rules) field.ErrorList {
	_, errs := b.zone(nil, r.TimeZone, "")
	errs = append(errs, b.check(field.NewPath("run"), &r.Run, r.TimeZone)...)
	r.each(func(levels, name string, l *Level) {
		errs = append(errs, b.check(field.NewPath(levels).Key(name), l, r.TimeZone)...)
	})
	return errs
}

// zone returns the name of an object's zone, or the inherited one if it names none. An unknown
// zone is reported at its name, and replaced by UTC.
func (b *builder) zone(at *field.Path, name, inherited string) (string, field.ErrorList) {
	if name == "" {
		return inherited, nil
	}
	if _, known := b.zones[name]; !known {
		loc, err := zone(nil, name)
		b.zones[name] = located{loc, err}
	}
	if err := b.zones[name].err; err != nil {
		return "", field.ErrorList{field.Invalid(at.Child("timeZone"), name, err.Detail)}
	}
	return name, nil
}

func (b *builder) loc(name string) *time.Location {
	if z := b.zones[name]; z.loc != nil {
		return z.loc
	}
	return time.UTC
}

// check compiles a level and returns its problems.
func (b *builder) check(at *field.Path, l *Level, inherited string) field.ErrorList {
	_, errs := b.level(at, l, inherited)
	return errs
}

func (b *builder) level(at *field.Path, l *Level, inherited string) (*level, field.ErrorList) {
	own, errs := b.zone(at, l.TimeZone, inherited)
	made := &level{}
	for i := range l.Windows {
		w, at := &l.Windows[i], at.Child("windows").Index(i)
		src, problems := b.recurring(at, recurrence{w.RRule, w.Start, w.Duration.Duration}, w.TimeZone, own)
		made.windows = append(made.windows, src)
		errs = append(errs, problems...)
	}
	for i := range l.Freezes {
		f, at := &l.Freezes[i], at.Child("freezes").Index(i)
		src, problems := b.freeze(at, f, own)
		made.freezes = append(made.freezes, denied{src, f.why()})
		errs = append(errs, problems...)
	}
	return made, errs
}

// recurring compiles a recurrence rule, each one once.
func (b *builder) recurring(at *field.Path, r recurrence, name, inherited string) (source, field.ErrorList) {
	name, errs := b.zone(at, name, inherited)
	key := ruleKey{r, name}
	if _, known := b.rules[key]; !known {
		made, errs := r.compile(b.loc(name))
		b.rules[key] = compiled{made, errs}
	}
	for _, e := range b.rules[key].errs {
		moved := *e
		moved.Field = at.Child(e.Field).String()
		errs = append(errs, &moved)
	}
	return b.rules[key].rule, errs
}

func (f *Freeze) why() string {
	why := "freeze"
	if f.Name != "" {
		why += " " + f.Name
	}
	if f.Reason != "" {
		why += ": " + f.Reason
	}
	return why
}

func (b *builder) freeze(at *field.Path, f *Freeze, inherited string) (source, field.ErrorList) {
	ranged := f.From != "" || f.Until != ""
	recurs := f.RRule != "" || f.Start != "" || f.Duration.Duration != 0
	switch {
	case recurs && !ranged:
		return b.recurring(at, recurrence{f.RRule, f.Start, f.Duration.Duration}, f.TimeZone, inherited)
	case recurs:
		return nil, field.ErrorList{field.Forbidden(at, "a freeze is either from and until, or rrule and duration")}
	case !ranged:
		return nil, field.ErrorList{field.Required(at, "a freeze needs from or until, or rrule and duration")}
	}
	return b.once(at, f, inherited)
}

// once compiles a freeze that is a range.
func (b *builder) once(at *field.Path, f *Freeze, inherited string) (source, field.ErrorList) {
	const right = "must be a time with an offset, for example 2026-11-27T00:00:00Z, or a local one, for example 2026-11-27T00:00"
	name, errs := b.zone(at, f.TimeZone, inherited)
	made := once{to: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}
	for _, end := range []struct {
		field, text string
		t           *time.Time
	}{{"from", f.From, &made.from}, {"until", f.Until, &made.to}} {
		if end.text == "" {
			continue
		}
		t, ok := parseTime(end.text, b.loc(name))
		if !ok {
			errs = append(errs, field.Invalid(at.Child(end.field), end.text, right))
		}
		*end.t = t
	}
	if len(errs) == 0 && !made.from.Before(made.to) {
		errs = append(errs, field.Invalid(at.Child("until"), f.Until, "must be after from, which is "+f.From))
	}
	return made, errs
}

// shared compiles a level; equal levels give the same object.
func (b *builder) shared(l Level, inherited string) *level {
	if len(l.Windows) == 0 && len(l.Freezes) == 0 {
		return nil
	}
	key, err := json.Marshal(l)
	if known := b.levels[string(key)]; err == nil && known != nil {
		return known
	}
	made, _ := b.level(nil, &l, inherited) // it was checked before
	b.levels[string(key)] = made
	return made
}

// calendar resolves rules that have no problems against a plan.
func (b *builder) calendar(r *Rules, p *stages.Plan) calendar {
	c := make(calendar, 0, p.Len())
	for i := range p.Stages {
		for _, g := range p.Stages[i].Groups {
			above := b.above(r, p.Stages[i].Name, g.Name)
			made := map[*level]*schedule{}
			for _, cluster := range p.Clusters[g.First:][:g.Len] {
				own := b.shared(r.Clusters[cluster.Name], r.TimeZone)
				if made[own] == nil {
					made[own] = together(append(slices.Clip(above), named{own, "outside its maintenance window"}))
				}
				c = append(c, made[own])
			}
		}
	}
	return c
}

// above returns the levels that apply to all clusters of a group.
func (b *builder) above(r *Rules, stage, group string) []named {
	of := func(l Level, what string) named {
		return named{b.shared(l, r.TimeZone), "outside the maintenance window of " + what}
	}
	levels := []named{of(r.Run, "the run"), of(r.Stages[stage], "stage "+stage)}
	if group == "" {
		return levels
	}
	for _, name := range []string{group, stage + "/" + group} {
		levels = append(levels, of(r.Groups[name], "group "+group))
	}
	return levels
}

// named is a level, or nil, with the reason when its windows are closed.
type named struct {
	*level
	why string
}

// together returns the schedule of the levels that apply to a cluster.
func together(levels []named) *schedule {
	s := &schedule{}
	for _, l := range levels {
		if l.level == nil {
			continue
		}
		if len(l.windows) > 0 {
			s.allow = append(s.allow, allowed{l.windows, l.why})
		}
		s.deny = append(s.deny, l.freezes...)
	}
	s.setHorizon()
	return s
}

// calendar has the schedules of the clusters of a plan, by position.
type calendar []*schedule

func (c calendar) Window(pos int, at time.Time) stages.Window {
	if pos < 0 || pos >= len(c) {
		return stages.Window{Limited: true, Reason: "the plan has no cluster at this position"}
	}
	return c[pos].window(at)
}
