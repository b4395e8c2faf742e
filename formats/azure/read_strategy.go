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
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slipway-dev/slipway/formats/internal/rollback"
	"github.com/slipway-dev/slipway/stages"
)

// Read reads the stages of an update strategy or of an update run, which are JSON:
// the file of --stages. The name stands for the input in errors. The strategy has
// no name of its own.
//
// The error, if there is one, is a [Problems] with everything that is wrong, or
// that of r.
func Read(r io.Reader, name string) (stages.Strategy, error) {
	rd := newReading(name)
	n, ok, err := rd.parse(r)
	if err != nil {
		return stages.Strategy{}, err
	}
	if !ok {
		return stages.Strategy{}, rd.problem()
	}
	return StrategyOf(n, name, "")
}

// StrategyOf reads the stages from a part of a YAML document, as [Read] does from a
// file. path is where the part stands in the document; it begins the fields of the
// problems, whose lines are those of the nodes.
func StrategyOf(n *yaml.Node, file, path string) (stages.Strategy, error) {
	rd := newReading(file)
	top := value{rd, resolve(n), path}
	b := &builder{groups: map[string]int{}}
	var back *stages.Rollback
	top.object(fields{
		"stages": b.list,
		rollbackField: func(v value) {
			back = rollback.ReadNode(v.node, v.path, v.r.report)
		},
	}, "stages")
	s := strategyOf(b.stages...)
	s.Rollback = back
	top.report(fieldErrors(s.Validate()), place)
	if err := rd.problem(); err != nil {
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

// rollbackField is Slipway's own: Azure's runs take nothing back.
const rollbackField = "slipwayRollback"

func (b *builder) list(v value) {
	v.list(func(v value) {
		if len(b.stages) < MaxStages {
			b.stage(v)
		}
	})
	if n := len(v.node.Content); n > MaxStages {
		v.fail("has %d stages; at most %d are read", n, MaxStages)
	}
}

func (b *builder) stage(v value) {
	var s stages.Stage
	var wait time.Duration
	ok := v.object(fields{
		"name":                    func(v value) { s.Name = v.name() },
		"memberSelector":          func(v value) { s.Selector = v.selector() },
		"maxConcurrency":          func(v value) { s.MaxConcurrency = v.concurrency() },
		"maxAllowedFailures":      func(v value) { s.MaxFailures = v.failures() },
		"beforeGates":             func(v value) { s.Before = v.gates(true) },
		"afterGates":              func(v value) { s.After = v.gates(false) },
		"afterStageWaitInSeconds": func(v value) { wait = time.Duration(v.integer(0, maxWait)) * time.Second },
		"groups": func(v value) {
			v.list(func(v value) {
				if len(s.Groups) < MaxGroups {
					s.Groups = append(s.Groups, b.group(v))
				}
			})
			if n := len(v.node.Content); n > MaxGroups {
				v.fail("has %d groups; a stage has at most %d", n, MaxGroups)
			}
		},
	}, "name")
	if wait > 0 {
		s.After = append(s.After, stages.Task{Type: stages.TimedWait, Wait: wait})
	}
	if ok {
		v.whole(&s)
	}
	b.stages = append(b.stages, s)
}

// whole checks what the fields of a stage say together, and adds what Azure means
// where they say nothing.
func (v value) whole(s *stages.Stage) {
	if len(s.Groups) == 0 && s.Selector == nil {
		v.at(v.node, "groups").fail("is required; or write a memberSelector")
	}
	for i := range s.Groups {
		g := &s.Groups[i]
		if greater(g.MaxConcurrency, s.MaxConcurrency) {
			path := fmt.Sprintf("groups[%d].maxConcurrency", i)
			v.r.report(v.find(path), v.path+"."+path, fmt.Sprintf("%d is more than the maxConcurrency of the stage, %d", g.MaxConcurrency.IntVal, s.MaxConcurrency.IntVal))
		}
	}
	if s.Selector == nil {
		s.Selector = everything()
	}
	if s.MaxConcurrency == nil && len(s.Groups) > 0 {
		s.MaxConcurrency = new(intstr.FromInt32(MaxConcurrency))
	}
}

// greater compares two numbers; a percentage is not compared.
func greater(a, b *intstr.IntOrString) bool {
	return a != nil && b != nil && a.Type == intstr.Int && b.Type == intstr.Int && a.IntVal > b.IntVal
}

func (b *builder) group(v value) stages.Group {
	g := stages.Group{MaxFailures: new(intstr.FromInt32(0))}
	v.object(fields{
		"name": func(v value) {
			g.Name = v.name()
			b.unique(v, g.Name)
		},
		"memberSelector":     func(v value) { g.Selector = v.selector() },
		"maxConcurrency":     func(v value) { g.MaxConcurrency = v.concurrency() },
		"maxAllowedFailures": func(v value) { g.MaxFailures = v.failures() },
		"beforeGates":        func(v value) { g.Before = v.gates(true) },
		"afterGates":         func(v value) { g.After = v.gates(false) },
	}, "name")
	switch {
	case g.Selector == nil && v.r.broken[v.path+".name"]:
		g.Selector = everything() // it was reported
	case g.Selector == nil:
		g.Selector = groupSelector(g.Name)
	}
	return g
}

// unique reports a group that is there already, in this stage or in another one.
func (b *builder) unique(v value, name string) {
	line, twice := b.groups[name]
	if twice && !v.r.broken[v.path] {
		v.fail("the group %q is there already, on line %d; a group is in one stage, once", name, line)
	}
	if !twice {
		b.groups[name] = v.node.Line
	}
}

// name reads the name of a stage or a group.
func (v value) name() string {
	s, ok := v.str()
	if ok && (len(validation.IsDNS1123Label(s)) > 0 || len(s) > MaxName) {
		v.fail("%q must be 1 to %d lower-case letters, digits and hyphens, and begin and end with a letter or a digit", clip(s), MaxName)
	}
	return s
}

// concurrency reads how many members may be updated at the same time.
func (v value) concurrency() *intstr.IntOrString {
	n := v.intOrPercent(1, `a number of at least 1, or a percentage from 1% to 100%, such as "3" or "25%"`)
	if n != nil && n.Type == intstr.Int && n.IntVal > MaxConcurrency {
		v.fail("must be at most %d, not %d", MaxConcurrency, n.IntVal)
	}
	return n
}

// failures reads how many members may fail.
func (v value) failures() *intstr.IntOrString {
	return v.intOrPercent(0, `a number of at least 0, or a percentage from 0% to 100%, such as "3" or "25%"`)
}

// intOrPercent reads a number or a percentage, which Azure writes as strings both.
// nil tells that it is neither, which is reported.
func (v value) intOrPercent(least int, want string) *intstr.IntOrString {
	text := v.node.Value
	ok := v.node.Kind == yaml.ScalarNode && (v.node.ShortTag() == "!!str" || v.node.ShortTag() == "!!int")
	n, percent := intstr.Parse(text), strings.HasSuffix(text, "%")
	if percent {
		n = intstr.Parse(strings.TrimSuffix(text, "%"))
	}
	ok = ok && n.Type == intstr.Int && n.String() == strings.TrimSuffix(text, "%") && n.IntVal >= int32(least) //nolint:gosec // 0 or 1
	if !ok || percent && n.IntVal > 100 {
		v.fail("must be %s, not %s", want, v.shown())
		return nil
	}
	if percent {
		n = intstr.FromString(text)
	}
	return &n
}

// shown returns a scalar as it stands there, and what anything else is.
func (v value) shown() string {
	if v.node.Kind == yaml.ScalarNode && v.node.ShortTag() == "!!str" {
		return fmt.Sprintf("%q", clip(v.node.Value))
	}
	return v.describe()
}

// selector reads a memberSelector: an object with the selector as its byLabel, or
// the selector alone.
func (v value) selector() *metav1.LabelSelector {
	var s *metav1.LabelSelector
	if v.node.Kind == yaml.ScalarNode {
		s = v.byLabel()
	} else {
		v.object(fields{"byLabel": func(v value) { s = v.byLabel() }}, "byLabel")
	}
	if s == nil {
		return everything() // it was reported
	}
	return s
}

func (v value) byLabel() *metav1.LabelSelector {
	s, ok := v.str()
	if !ok {
		return nil
	}
	if strings.TrimSpace(s) == "" || len(s) > maxSelector {
		v.fail("must be a label selector of 1 to %d characters, for example env=production", maxSelector)
		return nil
	}
	found, err := parseSelector(s)
	if err != nil {
		v.fail("%q must be a label selector, for example env=production,tier in (web,api): %s", clip(s), clipped(err))
		return nil
	}
	return found
}

// parseSelector reads a selector as kubectl takes it.
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

// gates reads the gates on one side of a stage or a group.
func (v value) gates(before bool) []stages.Task {
	var tasks []stages.Task
	v.list(func(v value) {
		t := v.gate(before)
		switch {
		case t.Type == "": // it was reported
		case slices.ContainsFunc(tasks, func(u stages.Task) bool { return u.Type == t.Type }):
			v.fail("there is a gate of type %s already; one side of a stage or a group has one of each type", t.Type)
		default:
			tasks = append(tasks, t)
		}
	})
	return tasks
}

func (v value) gate(before bool) stages.Task {
	var t stages.Task
	v.object(fields{
		"displayName": func(v value) { t.DisplayName = v.displayName() },
		"type": func(v value) {
			t.Type = stages.TaskType(v.oneOf(string(stages.Approval), string(stages.ScheduledStart)))
			if t.Type == stages.ScheduledStart && !before {
				v.fail("a ScheduledStart is a gate before something; write it in beforeGates of what comes next")
			}
		},
		"scheduledStartConfiguration": func(v value) { t.Schedule = v.schedule() },
	}, "type")
	const config = "scheduledStartConfiguration"
	switch {
	case t.Type == stages.ScheduledStart && t.Schedule == nil:
		v.at(v.node, config).fail("is required with type ScheduledStart")
	case t.Type == stages.Approval && t.Schedule != nil:
		v.r.report(v.find(config), v.path+"."+config, "goes with type ScheduledStart only")
	}
	return t
}

func (v value) displayName() string {
	s, ok := v.str()
	if n := len([]rune(s)); ok && (n < 1 || n > maxDisplayName) {
		v.fail("must be 1 to %d characters long, not %d", maxDisplayName, n)
		return ""
	}
	return s
}

func (v value) schedule() *stages.Schedule {
	var s stages.Schedule
	v.object(fields{
		"startDay": func(v value) {
			s.Day = v.oneOf("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
		},
		"startTime": func(v value) {
			s.Time = v.matching(`^([01][0-9]|2[0-3]):[0-5][0-9]$`, "a time of day from 00:00 to 23:59")
		},
		"utcOffset": func(v value) {
			s.Offset = v.matching(`^[+-]((0[0-9]|1[0-3]):[0-5][0-9]|14:00)$`, "a distance from UTC such as +02:00 or -08:00")
		},
	}, "startDay", "startTime", "utcOffset")
	return &s
}

// matching reads a string of a form.
func (v value) matching(form, want string) string {
	s, ok := v.str()
	if ok && !regexp.MustCompile(form).MatchString(s) {
		v.fail("must be %s, not %q", want, clip(s))
		return ""
	}
	return s
}

// place turns the path of a field of a strategy into that of what it was read from.
func place(path string) string {
	if below, ok := strings.CutPrefix(path, "rollback"); ok {
		return rollbackField + below
	}
	return strings.NewReplacer(
		"labelSelector", "memberSelector", "maxFailures", "maxAllowedFailures",
		"beforeStageTasks", "beforeGates", "afterStageTasks", "afterGates",
		"beforeGroupTasks", "beforeGates", "afterGroupTasks", "afterGates",
		"schedule.day", "scheduledStartConfiguration.startDay", "schedule.time", "scheduledStartConfiguration.startTime",
		"schedule.offset", "scheduledStartConfiguration.utcOffset", "schedule", "scheduledStartConfiguration",
	).Replace(path)
}
