package oam

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/stages"
)

// workflow reads a Workflow.
func workflow(d *document) Workflow {
	version(d, "v1alpha1")
	w := Workflow{Namespace: d.Namespace, Name: d.Name}
	v := d.Root()
	v.Object(fields{
		"apiVersion": yamldoc.Ignore, "kind": yamldoc.Ignore,
		"metadata": func(v value) { metadata(v, nil) },
		"mode":     func(v value) { w.Mode = mode(v) },
		"steps":    func(v value) { w.Steps = steps(v) },
	}, "metadata", "steps")
	checkOrder(v, w.Steps, w.Mode)
	return w
}

func mode(v value) Mode {
	var m Mode
	v.Object(fields{
		"steps":    func(v value) { m.Steps = executeMode(v) },
		"subSteps": func(v value) { m.SubSteps = executeMode(v) },
	})
	return m
}

func executeMode(v value) ExecuteMode {
	return yamldoc.OneOf(v, StepByStep, DAG)
}

// MaxSteps is the greatest number of steps in a workflow, including those in groups.
const MaxSteps = 1000

func steps(v value) []Step {
	seen := names{}
	list := stepList(v, seen, false)
	n := len(list)
	for i := range list {
		n += len(list[i].Steps)
	}
	if n == 0 {
		v.Fail("must have at least one step")
	}
	if n > MaxSteps {
		v.Fail("has %d steps with those of its groups; a workflow has at most %d", n, MaxSteps)
	}
	return list
}

// stepList reads steps, or the steps of a group. Names are unique across both.
func stepList(v value, seen names, inGroup bool) (list []Step) {
	v.Each(func(v value) {
		s := readStep(v, seen, inGroup)
		seen.once(v, s.Name)
		list = append(list, s)
	})
	return list
}

func readStep(v value, seen names, inGroup bool) Step {
	s := Step{Type: StepType(v.Peek("type"))}
	v.Object(fields{
		"name":       func(v value) { s.Name = stepName(v) },
		"type":       func(v value) { stepType(v, s.Type, inGroup) },
		"if":         func(v value) { s.If = condition(v) },
		"timeout":    func(v value) { s.Timeout = v.Period() },
		"dependsOn":  func(v value) { s.DependsOn = distinct(v) },
		"properties": func(v value) { stepProperties(v, &s) },
		"subSteps":   func(v value) { subSteps(v, &s, seen) },
		"mode":       func(v value) { s.Mode = groupMode(v, s.Type) },
		"meta":       yamldoc.Ignore,
		"inputs":     unsupported, "outputs": unsupported,
	}, "name", "type")
	switch {
	case s.Type == DeployStep && s.Deploy == nil:
		v.Place("properties").Fail("is required")
	case s.Type == SuspendStep && s.Suspend == nil:
		s.Suspend = &Suspend{}
	case s.Type == GroupStep && len(s.Steps) == 0:
		v.Place("subSteps").Fail("is required: a %s has at least one step", GroupStep)
	}
	return s
}

func stepName(v value) string {
	name := label(v)
	if name == stages.FinalStageName || name == stages.RemovalStageName {
		v.Fail("%s is the name of a stage that the planner adds; choose another", name)
	}
	return name
}

func stepType(v value, of StepType, inGroup bool) {
	switch {
	case of == GroupStep && inGroup:
		v.Fail("a %s stands in no other one", GroupStep)
	case !slices.Contains([]StepType{DeployStep, SuspendStep, GroupStep}, of):
		v.Fail("steps of type %q are not supported; supported are %s, %s and %s", yamldoc.Clip(string(of)), DeployStep, SuspendStep, GroupStep)
	}
}

func condition(v value) Condition {
	s := v.NonEmpty()
	switch c := Condition(s); c {
	case Default, Always, Never:
		return c
	}
	v.Fail("the condition %q is not supported: expressions are not evaluated; supported are %q and %q", yamldoc.Clip(s), Always, Never)
	return Default
}

// groupMode reads the order of the steps in a group.
func groupMode(v value, of StepType) ExecuteMode {
	if of != GroupStep {
		v.Fail("only a %s has one", GroupStep)
	}
	return executeMode(v)
}

func subSteps(v value, s *Step, seen names) {
	if s.Type != GroupStep {
		v.Fail("only a %s has them", GroupStep)
		return
	}
	s.Steps = stepList(v, seen, true)
}

func stepProperties(v value, s *Step) {
	switch s.Type {
	case DeployStep:
		s.Deploy = deploy(v)
	case SuspendStep:
		s.Suspend = &Suspend{}
		v.Object(fields{
			"duration": func(v value) { s.Suspend.Duration = v.Period() },
			"message":  func(v value) { s.Suspend.Message = v.Str() },
		})
	case GroupStep:
		v.Object(fields{})
	}
}

func deploy(v value) *Deploy {
	d := &Deploy{Parallelism: DefaultParallelism}
	v.Object(fields{
		"policies":                 func(v value) { d.Policies = distinct(v) },
		"auto":                     func(v value) { d.Manual = !v.Boolean() },
		"parallelism":              func(v value) { d.Parallelism = v.AtLeast(1) },
		"ignoreTerraformComponent": func(v value) { v.Boolean() }, // there are no such components
	}, "policies")
	return d
}

// checkOrder reports dependencies that a step can never wait for.
func checkOrder(v value, steps []Step, mode Mode) {
	at, _ := v.Get("steps")
	checkDependencies(at, steps, mode.Steps != DAG)
	for i := range steps {
		s := &steps[i]
		checkDependencies(at.Place("["+itoa(i)+"].subSteps"), s.Steps, s.subMode(mode) != DAG)
	}
}

// checkDependencies checks the dependencies within a list of steps.
func checkDependencies(v value, steps []Step, inOrder bool) {
	all, before := sets.New[string](), sets.New[string]()
	for i := range steps {
		all.Insert(steps[i].Name)
	}
	for i := range steps {
		for j, name := range steps[i].DependsOn {
			at := "[" + itoa(i) + "].dependsOn[" + itoa(j) + "]"
			switch {
			case !all.Has(name):
				v.Place(at).Fail("there is no step %s beside this one", yamldoc.Clip(name))
			case inOrder && !before.Has(name):
				v.Place(at).Fail("step %s does not come before this one, and steps run one after the other; move it, or write the mode %s", yamldoc.Clip(name), DAG)
			}
		}
		before.Insert(steps[i].Name)
	}
	if name := cycle(steps); name != "" && !inOrder {
		v.Fail("step %s depends on itself, by way of others; take one dependsOn out", yamldoc.Clip(name))
	}
}
