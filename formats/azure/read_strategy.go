package azure

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slipway-dev/slipway/formats/internal/rollback"
	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/stages"
)

// Read reads the stages of an update strategy or of an update run, which are JSON: the file of
// --stages. Errors use the name for the input. The strategy has no name.
//
// The error is a problem.List with all problems, or the error of r.
func Read(r io.Reader, name string) (stages.Strategy, error) {
	d, err := parse(r, name)
	if err != nil {
		return stages.Strategy{}, err
	}
	return strategyIn(d)
}

// StrategyOf reads the stages from a part of a YAML document, like [Read] from a file. path is the
// path of the part in the document: the field paths of the problems begin with it. Their lines come
// from the nodes.
func StrategyOf(n *yaml.Node, file, path string) (stages.Strategy, error) {
	d := yamldoc.New(file)
	d.Open(n, path)
	return strategyIn(d)
}

type (
	value  = yamldoc.Value
	fields = yamldoc.Fields
)

func strategyIn(d *yamldoc.Doc) (stages.Strategy, error) {
	if d.IsEmpty() {
		return stages.Strategy{}, d.Err()
	}
	b := &builder{groups: map[string]int{}}
	var back *stages.RollbackPolicy
	d.Root().Object(fields{
		"stages":      b.list,
		rollbackField: func(v value) { back = rollback.Read(v) },
	}, "stages")
	s := strategyOf(b.stages...)
	s.Rollback = back
	d.Root().Check(s.Validate(), place)
	if err := d.Err(); err != nil {
		return stages.Strategy{}, err
	}
	return s, nil
}

// builder collects the stages.
type builder struct {
	stages []stages.Stage
	// groups are the lines of the groups so far, by their names.
	groups map[string]int
}

// rollbackField belongs to Slipway, because Azure's runs have no rollback.
const rollbackField = "slipwayRollback"

func (b *builder) list(v value) {
	v.Each(func(v value) {
		if len(b.stages) < MaxStages {
			b.stage(v)
		}
	})
	if n := v.Len(); n > MaxStages {
		v.Fail("has %d stages; at most %d are read", n, MaxStages)
	}
}

func (b *builder) stage(v value) {
	var s stages.Stage
	var wait time.Duration
	ok := v.Object(fields{
		"name":                    func(v value) { s.Name = name(v) },
		"memberSelector":          func(v value) { s.Selector = selector(v) },
		"maxConcurrency":          func(v value) { s.MaxConcurrency = concurrency(v) },
		"maxAllowedFailures":      func(v value) { s.MaxFailures = failures(v) },
		"beforeGates":             func(v value) { s.Before = tasks(v, true) },
		"afterGates":              func(v value) { s.After = tasks(v, false) },
		"afterStageWaitInSeconds": func(v value) { wait = time.Duration(v.Integer(0, maxWait)) * time.Second },
		"groups": func(v value) {
			v.Each(func(v value) {
				if len(s.Groups) < MaxGroups {
					s.Groups = append(s.Groups, b.group(v))
				}
			})
			if n := v.Len(); n > MaxGroups {
				v.Fail("has %d groups; a stage has at most %d", n, MaxGroups)
			}
		},
	}, "name")
	if wait > 0 {
		s.After = append(s.After, stages.Task{Type: stages.TimedWait, Wait: metav1.Duration{Duration: wait}})
	}
	if ok {
		whole(v, &s)
	}
	b.stages = append(b.stages, s)
}

// whole checks that the fields of a stage are consistent, and adds Azure's defaults.
func whole(v value, s *stages.Stage) {
	if len(s.Groups) == 0 && s.Selector == nil {
		v.Place("groups").Fail("is required; or write a memberSelector")
	}
	for i := range s.Groups {
		g := &s.Groups[i]
		if greater(g.MaxConcurrency, s.MaxConcurrency) {
			v.Place(fmt.Sprintf("groups[%d].maxConcurrency", i)).
				Fail("%d is more than the maxConcurrency of the stage, %d", g.MaxConcurrency.IntVal, s.MaxConcurrency.IntVal)
		}
	}
	if s.Selector == nil {
		s.Selector = everything()
	}
	if s.MaxConcurrency == nil && len(s.Groups) > 0 {
		s.MaxConcurrency = new(intstr.FromInt32(MaxConcurrency))
	}
}

// greater compares two numbers; it returns false if one is a percentage.
func greater(a, b *intstr.IntOrString) bool {
	return a != nil && b != nil && a.Type == intstr.Int && b.Type == intstr.Int && a.IntVal > b.IntVal
}

func (b *builder) group(v value) stages.Group {
	g := stages.Group{MaxFailures: new(intstr.FromInt32(0))}
	v.Object(fields{
		"name": func(v value) {
			g.Name = name(v)
			b.unique(v, g.Name)
		},
		"memberSelector":     func(v value) { g.Selector = selector(v) },
		"maxConcurrency":     func(v value) { g.MaxConcurrency = concurrency(v) },
		"maxAllowedFailures": func(v value) { g.MaxFailures = failures(v) },
		"beforeGates":        func(v value) { g.Before = tasks(v, true) },
		"afterGates":         func(v value) { g.After = tasks(v, false) },
	}, "name")
	switch {
	case g.Selector == nil && !v.Place("name").OK():
		g.Selector = everything() // it was reported
	case g.Selector == nil:
		g.Selector = groupSelector(g.Name)
	}
	return g
}

// unique reports a group that exists already, in this stage or in another one.
func (b *builder) unique(v value, name string) {
	line, twice := b.groups[name]
	if twice && v.OK() {
		v.Fail("the group %q is there already, on line %d; a group is in one stage, once", name, line)
	}
	if !twice {
		b.groups[name] = v.Line()
	}
}

// name reads the name of a stage or a group.
func name(v value) string {
	s := v.Str()
	if v.OK() && (len(validation.IsDNS1123Label(s)) > 0 || len(s) > MaxName) {
		v.Fail("%q must be 1 to %d lower-case letters, digits and hyphens, and begin and end with a letter or a digit", yamldoc.Clip(s), MaxName)
	}
	return s
}

// concurrency reads the number of concurrent updates.
func concurrency(v value) *intstr.IntOrString {
	n := intOrPercent(v, 1, `a number of at least 1, or a percentage from 1% to 100%, such as "3" or "25%"`)
	if n != nil && n.Type == intstr.Int && n.IntVal > MaxConcurrency {
		v.Fail("must be at most %d, not %d", MaxConcurrency, n.IntVal)
	}
	return n
}

// failures reads the number of allowed failures.
func failures(v value) *intstr.IntOrString {
	return intOrPercent(v, 0, `a number of at least 0, or a percentage from 0% to 100%, such as "3" or "25%"`)
}

// intOrPercent reads a number or a percentage; Azure writes both as strings. It reports any other
// value and returns nil.
func intOrPercent(v value, least int, want string) *intstr.IntOrString {
	text := v.Node.Value
	ok := v.Node.Kind == yaml.ScalarNode && (v.Node.ShortTag() == "!!str" || v.Node.ShortTag() == "!!int")
	n, percent := intstr.Parse(text), strings.HasSuffix(text, "%")
	if percent {
		n = intstr.Parse(strings.TrimSuffix(text, "%"))
	}
	ok = ok && n.Type == intstr.Int && n.String() == strings.TrimSuffix(text, "%") && n.IntVal >= int32(least) //nolint:gosec // least is 0 or 1
	if !ok || percent && n.IntVal > 100 {
		v.Fail("must be %s, not %s", want, shown(v))
		return nil
	}
	if percent {
		n = intstr.FromString(text)
	}
	return &n
}

// shown returns a quoted string, or a description of any other value.
func shown(v value) string {
	if v.IsString() {
		return fmt.Sprintf("%q", yamldoc.Clip(v.Node.Value))
	}
	return v.Describe()
}

// selector reads a memberSelector: an object with the selector as its byLabel, or the selector
// alone.
func selector(v value) *metav1.LabelSelector {
	var s *metav1.LabelSelector
	if v.Node.Kind == yaml.ScalarNode {
		s = byLabel(v)
	} else {
		v.Object(fields{"byLabel": func(v value) { s = byLabel(v) }}, "byLabel")
	}
	if s == nil {
		return everything() // it was reported
	}
	return s
}

func byLabel(v value) *metav1.LabelSelector {
	s := v.Str()
	if !v.OK() {
		return nil
	}
	if strings.TrimSpace(s) == "" || len(s) > maxSelector {
		v.Fail("must be a label selector of 1 to %d characters, for example env=production", maxSelector)
		return nil
	}
	found, err := parseSelector(s)
	if err != nil {
		v.Fail("%q must be a label selector, for example env=production,tier in (web,api): %s", yamldoc.Clip(s), clipped(err))
		return nil
	}
	return found
}

// parseSelector parses a selector in kubectl's syntax.
func parseSelector(s string) (*metav1.LabelSelector, error) {
	all, err := labels.ParseToRequirements(s)
	if err != nil {
		return nil, err
	}
	out := everything()
	for _, q := range all {
		if err := addRequirement(out, q); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func addRequirement(s *metav1.LabelSelector, q labels.Requirement) error {
	r := metav1.LabelSelectorRequirement{Key: q.Key(), Values: q.ValuesUnsorted()}
	switch q.Operator() {
	case selection.Equals, selection.DoubleEquals:
		if _, taken := s.MatchLabels[q.Key()]; !taken {
			metav1.AddLabelToSelector(s, q.Key(), r.Values[0])
			return nil
		}
		r.Operator = metav1.LabelSelectorOpIn
	case selection.In:
		r.Operator = metav1.LabelSelectorOpIn
	case selection.NotIn, selection.NotEquals:
		r.Operator = metav1.LabelSelectorOpNotIn
	case selection.Exists:
		r.Operator = metav1.LabelSelectorOpExists
	case selection.DoesNotExist:
		r.Operator = metav1.LabelSelectorOpDoesNotExist
	default:
		return fmt.Errorf("%s %s: numbers are not compared; use =, !=, in, notin, or the key alone", q.Key(), q.Operator())
	}
	slices.Sort(r.Values)
	s.MatchExpressions = append(s.MatchExpressions, r)
	return nil
}

// clipped bounds the text of an error that repeats its input.
func clipped(err error) string {
	const limit = 200
	s := strings.ReplaceAll(err.Error(), "\n", " ")
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "..."
	}
	return s
}

// tasks reads the gates on one side of a stage or a group.
func tasks(v value, before bool) []stages.Task {
	var list []stages.Task
	seen := sets.New[stages.TaskType]()
	v.Each(func(v value) {
		t := task(v, before)
		switch {
		case t.Type == "": // it was reported
		case seen.Has(t.Type):
			v.Fail("there is a gate of type %s already; one side of a stage or a group has one of each type", t.Type)
		default:
			seen.Insert(t.Type)
			list = append(list, t)
		}
	})
	return list
}

func task(v value, before bool) stages.Task {
	var t stages.Task
	v.Object(fields{
		"displayName": func(v value) { t.DisplayName = displayName(v) },
		"type": func(v value) {
			if kind := yamldoc.OneOf(v, stages.Approval, stages.ScheduledStart); v.OK() {
				t.Type = kind
			}
			if t.Type == stages.ScheduledStart && !before {
				v.Fail("a ScheduledStart is a gate before something; write it in beforeGates of what comes next")
			}
		},
		"scheduledStartConfiguration": func(v value) { t.Schedule = schedule(v) },
	}, "type")
	const config = "scheduledStartConfiguration"
	switch {
	case t.Type == stages.ScheduledStart && t.Schedule == nil:
		v.Place(config).Fail("is required with type ScheduledStart")
	case t.Type == stages.Approval && t.Schedule != nil:
		v.Place(config).Fail("goes with type ScheduledStart only")
	}
	return t
}

func displayName(v value) string {
	s := v.Str()
	if n := len([]rune(s)); v.OK() && (n < 1 || n > maxDisplayName) {
		v.Fail("must be 1 to %d characters long, not %d", maxDisplayName, n)
		return ""
	}
	return s
}

func schedule(v value) *stages.Schedule {
	var s stages.Schedule
	v.Object(fields{
		"startDay": func(v value) {
			s.Day = yamldoc.OneOf(v, "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
		},
		"startTime": func(v value) {
			s.Time = matching(v, `^([01][0-9]|2[0-3]):[0-5][0-9]$`, "a time of day from 00:00 to 23:59")
		},
		"utcOffset": func(v value) {
			s.Offset = matching(v, `^[+-]((0[0-9]|1[0-3]):[0-5][0-9]|14:00)$`, "a distance from UTC such as +02:00 or -08:00")
		},
	}, "startDay", "startTime", "utcOffset")
	return &s
}

// matching reads a string that matches a pattern.
func matching(v value, form, want string) string {
	s := v.Str()
	if v.OK() && !regexp.MustCompile(form).MatchString(s) {
		v.Fail("must be %s, not %q", want, yamldoc.Clip(s))
		return ""
	}
	return s
}
