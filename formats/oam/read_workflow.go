package oam

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/slipway-dev/slipway/stages"
)

// workflow reads a Workflow.
func (d *document) workflow() Workflow {
	d.version("v1alpha1")
	w := Workflow{Namespace: d.namespace, Name: d.name}
	v := d.value()
	v.object(fields{
		"apiVersion": ignore, "kind": ignore,
		"metadata": func(v value) { v.metadata(nil) },
		"mode":     func(v value) { w.Mode = v.mode() },
		"steps":    func(v value) { w.Steps = v.steps() },
	}, "metadata", "steps")
	v.checkOrder(w.Steps, w.Mode)
	return w
}

func (v value) mode() Mode {
	var m Mode
	v.object(fields{
		"steps":    func(v value) { m.Steps = v.executeMode() },
		"subSteps": func(v value) { m.SubSteps = v.executeMode() },
	})
	return m
}

func (v value) executeMode() ExecuteMode {
	return ExecuteMode(v.oneOf(string(StepByStep), string(DAG)))
}

func (v value) steps() []Step {
	seen := names{}
	list := v.stepList(seen, false)
	if len(list) == 0 {
		v.fail("must have at least one step")
	}
	return list
}

// stepList reads steps, or those of a group. Names are unique in both.
func (v value) stepList(seen names, inGroup bool) (list []Step) {
	v.list(func(v value) {
		s := v.step(seen, inGroup)
		seen.once(v, s.Name)
		list = append(list, s)
	})
	return list
}

func (v value) step(seen names, inGroup bool) Step {
	var s Step
	if t, ok := v.get("type"); ok {
		of, _ := t.text()
		s.Type = StepType(of)
	}
	v.object(fields{
		"name":       func(v value) { s.Name = v.stepName() },
		"type":       func(v value) { v.stepType(s.Type, inGroup) },
		"if":         func(v value) { s.If = v.condition() },
		"timeout":    func(v value) { s.Timeout = v.duration() },
		"dependsOn":  func(v value) { s.DependsOn = v.strings() },
		"properties": func(v value) { v.stepProperties(&s) },
		"subSteps":   func(v value) { v.subSteps(&s, seen) },
		"mode":       func(v value) { s.Mode = v.groupMode(s.Type) },
		"meta":       ignore,
		"inputs":     unsupported, "outputs": unsupported,
	}, "name", "type")
	switch {
	case s.Type == DeployStep && s.Deploy == nil:
		v.at(v.node, "properties").fail("is required")
	case s.Type == SuspendStep && s.Suspend == nil:
		s.Suspend = &Suspend{}
	case s.Type == GroupStep && len(s.Steps) == 0:
		v.at(v.node, "subSteps").fail("is required: a %s has at least one step", GroupStep)
	}
	return s
}

func (v value) stepName() string {
	name := v.label()
	if name == stages.FinalStageName || name == stages.RemovalStageName {
		v.fail("%s is the name of a stage that the planner adds; choose another", name)
	}
	return name
}

func (v value) stepType(of StepType, inGroup bool) {
	switch {
	case of == GroupStep && inGroup:
		v.fail("a %s stands in no other one", GroupStep)
	case !slices.Contains([]StepType{DeployStep, SuspendStep, GroupStep}, of):
		v.fail("steps of type %q are not supported; supported are %s, %s and %s", clip(string(of)), DeployStep, SuspendStep, GroupStep)
	}
}

func (v value) condition() Condition {
	s := v.str()
	switch c := Condition(s); c {
	case Default, Always, Never:
		return c
	}
	v.fail("the condition %q is not supported: expressions are not evaluated; supported are %q and %q", clip(s), Always, Never)
	return Default
}

// groupMode reads the mode of the steps of a group.
func (v value) groupMode(of StepType) ExecuteMode {
	if of != GroupStep {
		v.fail("only a %s has one", GroupStep)
	}
	return v.executeMode()
}

func (v value) subSteps(s *Step, seen names) {
	if s.Type != GroupStep {
		v.fail("only a %s has them", GroupStep)
		return
	}
	s.Steps = v.stepList(seen, true)
}

func (v value) stepProperties(s *Step) {
	switch s.Type {
	case DeployStep:
		s.Deploy = v.deploy()
	case SuspendStep:
		s.Suspend = &Suspend{}
		v.object(fields{
			"duration": func(v value) { s.Suspend.Duration = v.duration() },
			"message":  func(v value) { s.Suspend.Message, _ = v.text() },
		})
	case GroupStep:
		v.object(fields{})
	}
}

func (v value) deploy() *Deploy {
	d := &Deploy{Parallelism: DefaultParallelism}
	v.object(fields{
		"policies":                 func(v value) { d.Policies = v.strings() },
		"auto":                     func(v value) { d.Manual = !v.boolean() },
		"parallelism":              func(v value) { d.Parallelism = v.integer(1) },
		"ignoreTerraformComponent": func(v value) { v.boolean() }, // there are no such components
	}, "policies")
	return d
}

// checkOrder reports what a step depends on and can never wait for.
func (v value) checkOrder(steps []Step, mode Mode) {
	at, _ := v.get("steps")
	at.checkDependencies(steps, mode.Steps != DAG)
	for i := range steps {
		s := &steps[i]
		sub := at.at(at.node, "["+itoa(i)+"].subSteps")
		sub.checkDependencies(s.Steps, s.subMode(mode) != DAG)
	}
}

// checkDependencies checks a list of steps of which each may depend on others of
// it.
func (v value) checkDependencies(steps []Step, inOrder bool) {
	all, before := sets.New[string](), sets.New[string]()
	for i := range steps {
		all.Insert(steps[i].Name)
	}
	for i := range steps {
		for j, name := range steps[i].DependsOn {
			path := v.path + "[" + itoa(i) + "].dependsOn[" + itoa(j) + "]"
			switch {
			case !all.Has(name):
				v.doc.reportAt(path, "there is no step "+clip(name)+" beside this one")
			case inOrder && !before.Has(name):
				v.doc.reportAt(path, "step "+clip(name)+" does not come before this one, and steps run one after the other; move it, or write the mode "+string(DAG))
			}
		}
		before.Insert(steps[i].Name)
	}
	if name := cycle(steps); name != "" && !inOrder {
		v.doc.reportAt(v.path, "step "+clip(name)+" depends on itself, by way of others; take one dependsOn out")
	}
}
