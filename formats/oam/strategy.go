package oam

import (
	"maps"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// GraphName is the name of the single stage of a workflow in mode DAG; its groups are the steps.
const GraphName = "workflow"

// The backoff of a failing step: one second before the second attempt, then doubling up to
// KubeVela's longest wait.
const (
	firstBackoff = time.Second
	maxBackoff   = 5 * time.Minute
)

func labelSelector(m map[string]string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: m}
}

// drop finds the steps that never run: those with the condition Never and, unless they always
// run, those that depend on one.
func (b *publisher) drop() {
	b.dropped = map[string]bool{}
	w := &b.rel.Workflow
	b.dropSteps(w.Steps)
	for i := range w.Steps {
		s := &w.Steps[i]
		if b.dropped[s.Name] {
			for j := range s.Steps {
				b.dropped[s.Steps[j].Name] = true
			}
		}
		b.dropSteps(s.Steps)
	}
}

func (b *publisher) dropSteps(steps []Step) {
	for more := true; more; {
		more = false
		for i := range steps {
			s := &steps[i]
			depends := s.If != Always && slices.ContainsFunc(s.DependsOn, func(on string) bool { return b.dropped[on] })
			if !b.dropped[s.Name] && (s.If == Never || depends) {
				b.dropped[s.Name], more = true, true
			}
		}
	}
}

// strategy makes a stage of each step, or one stage of all steps in mode DAG.
func (b *publisher) strategy() {
	s := &b.rel.Run.Strategy
	s.Name, s.Profile, s.OnFailure = b.rel.Workflow.Name, stages.Workflow, stages.EndRun
	if b.options.SuspendOnFailure {
		s.OnFailure = stages.SuspendRun
	}
	s.Backoff.Duration, s.MaxBackoff.Duration = firstBackoff, maxBackoff
	s.Rollback = b.app.Rollback
	// Clusters of the placement that are in no stage belong to omitted steps of a release that was
	// restarted from a step.
	s.Unassigned = stages.UnassignedExclude
	live := b.live(b.rel.Workflow.Steps)
	if b.rel.Workflow.Mode.Steps == DAG {
		s.Stages = []stages.Stage{b.graph(live)}
		return
	}
	for i := range live {
		s.Stages = append(s.Stages, b.stage(&live[i]))
	}
	if len(live) == 0 && b.problems.OK() {
		b.fail("spec.workflow", "every step is skipped, so nothing is left to run")
	}
}

// live returns the steps that run.
func (b *publisher) live(steps []Step) []Step {
	return slices.DeleteFunc(slices.Clone(steps), func(s Step) bool { return b.dropped[s.Name] })
}

func (s *Step) flow() stages.Flow {
	return stages.Flow{Pause: s.Type == SuspendStep, Timeout: metav1.Duration{Duration: s.Timeout}, Always: s.If == Always}
}

// before returns the tasks before a step.
func (s *Step) before() []stages.Task {
	switch {
	case s.Type == SuspendStep && s.Suspend.Duration > 0:
		return []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: s.Suspend.Duration}}}
	case s.Type == SuspendStep, s.Type == DeployStep && s.Deploy.Manual:
		return []stages.Task{{Type: stages.Approval}}
	}
	return nil
}

func (b *publisher) stage(s *Step) stages.Stage {
	st := stages.Stage{Name: s.Name, Before: s.before(), Flow: s.flow()}
	switch s.Type {
	case DeployStep:
		st.Clusters, st.MaxConcurrency = b.deploy(s)
	case SuspendStep: // no clusters
	case GroupStep:
		st.Groups = b.groups(b.live(s.Steps), s.subMode(b.rel.Workflow.Mode) != DAG)
		st.Clusters = clustersOf(st.Groups)
	}
	return st
}

// graph makes a stage of steps that depend on each other. The steps of a step-group are groups of
// it, too: they inherit the group's dependencies, and steps that depend on the group depend on
// all of them.
func (b *publisher) graph(steps []Step) stages.Stage {
	st := stages.Stage{Name: GraphName}
	ends := map[string][]string{}
	for i := range steps {
		ends[steps[i].Name] = []string{steps[i].Name}
		if s := &steps[i]; s.Type == GroupStep {
			ends[s.Name] = stepNames(b.live(s.Steps))
		}
	}
	for i := range steps {
		s := &steps[i]
		if s.Type == GroupStep && s.Timeout > 0 {
			b.fail("workflow step "+s.Name, "a timeout of a step-group is not supported in mode DAG; give it to its steps")
		}
		var after []string
		for _, on := range s.DependsOn {
			after = append(after, ends[on]...)
		}
		for _, g := range b.members(s) {
			g.DependsOn = append(g.DependsOn, after...)
			st.Groups = append(st.Groups, g)
		}
	}
	st.Clusters = clustersOf(st.Groups)
	return st
}

// members returns the groups of a step in a graph.
func (b *publisher) members(s *Step) []stages.Group {
	if s.Type != GroupStep {
		return b.groups([]Step{*s}, true)
	}
	groups := b.groups(b.live(s.Steps), s.subMode(b.rel.Workflow.Mode) != DAG)
	for i := range groups {
		groups[i].Always = groups[i].Always || s.If == Always
	}
	return groups
}

func stepNames(steps []Step) (names []string) {
	for i := range steps {
		names = append(names, steps[i].Name)
	}
	return names
}

// groups makes a group of each step.
func (b *publisher) groups(steps []Step, inOrder bool) (groups []stages.Group) {
	for i := range steps {
		s := &steps[i]
		g := stages.Group{Name: s.Name, Before: s.before(), Flow: s.flow()}
		if s.Type == DeployStep {
			g.Clusters, g.MaxConcurrency = b.deploy(s)
		}
		for _, on := range s.DependsOn {
			if isStep(steps, on) {
				g.DependsOn = append(g.DependsOn, on)
			}
		}
		if inOrder && i > 0 && !slices.Contains(g.DependsOn, steps[i-1].Name) {
			g.DependsOn = append(g.DependsOn, steps[i-1].Name)
		}
		groups = append(groups, g)
	}
	return groups
}

func clustersOf(groups []stages.Group) (list []string) {
	for i := range groups {
		list = append(list, groups[i].Clusters...)
	}
	return list
}

// deploy returns the clusters of a step and their concurrency: Parallelism counts components on
// clusters, and a cluster receives all at once.
func (b *publisher) deploy(s *Step) ([]string, *intstr.IntOrString) {
	var picked []string
	var overrides []*Policy
	topologies := 0
	for _, name := range s.Deploy.Policies {
		p := b.policy(name)
		switch {
		case p == nil:
			b.fail("workflow step "+s.Name, "there is no policy "+yamldoc.Clip(name)+" in the application or in namespace "+b.app.Namespace)
			topologies++
		case p.Topology != nil:
			picked = append(picked, b.pick(s, p)...)
			topologies++
		default:
			overrides = append(overrides, p)
		}
	}
	if topologies == 0 {
		b.fail("workflow step "+s.Name, "names no policy of type topology: nothing is deployed to the hub itself")
	}
	picked = b.take(s, picked)
	for _, p := range overrides {
		b.override(p, picked)
	}
	return picked, new(intstr.FromInt(max(1, s.Deploy.Parallelism/max(1, len(b.app.Components)))))
}

// pick returns the existing clusters of a topology.
func (b *publisher) pick(s *Step, p *Policy) (picked []string) {
	if p.Topology.Labels == nil {
		for _, name := range p.Topology.Clusters {
			if !slices.ContainsFunc(b.clusters, func(c placement.Cluster) bool { return c.Name == name }) {
				b.fail("workflow step "+s.Name, "policy "+p.Name+" names the cluster "+yamldoc.Clip(name)+", which is not in the fleet")
			}
		}
		return p.Topology.Clusters
	}
	selector := labels.SelectorFromSet(p.Topology.Labels)
	for i := range b.clusters {
		if selector.Matches(labels.Set(b.clusters[i].Labels)) {
			picked = append(picked, b.clusters[i].Name)
		}
	}
	if len(picked) == 0 && !p.Topology.AllowEmpty {
		b.fail("workflow step "+s.Name, "policy "+p.Name+" selects no cluster, and does not say allowEmpty")
	}
	slices.Sort(picked)
	return picked
}

// take assigns clusters to a step, each once, in order.
func (b *publisher) take(s *Step, names []string) (own []string) {
	for _, name := range names {
		other, taken := b.taken[name]
		switch {
		case !taken:
			b.taken[name] = s.Name
			b.picked = append(b.picked, name)
			own = append(own, name)
		case other != s.Name:
			b.fail("workflow step "+s.Name, "cluster "+yamldoc.Clip(name)+" is deployed to by step "+other+" already; a run updates a cluster once")
		}
	}
	return own
}

// override adds the override of a policy for the clusters of a step.
func (b *publisher) override(p *Policy, clusters []string) {
	known := map[string]bool{}
	for _, c := range b.app.Components {
		known[c.Name] = true
	}
	b.checkComponents(p, known)
	if len(clusters) == 0 {
		return
	}
	on := &placement.ClusterSelector{Terms: []placement.ClusterTerm{{ClusterNames: clusters}}}
	for i, c := range b.app.Components {
		rule := placement.Rule{ClusterSelector: on, Patches: p.Override.patches(c.Name)}
		if left := p.Override.Selector; len(left) > 0 && !slices.Contains(left, c.Name) {
			rule = placement.Rule{ClusterSelector: on, Type: placement.Delete}
		}
		if rule.Type != placement.Delete && len(rule.Patches) == 0 {
			continue
		}
		name := "o" + strconv.Itoa(len(b.rel.Placement.Overrides))
		at := "spec.components[" + itoa(i) + "]"
		b.rel.Placement.Overrides = append(b.rel.Placement.Overrides, placement.Override{
			Name: name, Namespace: b.app.Namespace, Priority: int32(len(b.rel.Placement.Overrides)),
			Selectors: b.selected(at, p, c), Rules: []placement.Rule{rule},
		})
	}
}

// checkComponents reports unknown components in an override.
func (b *publisher) checkComponents(p *Policy, known map[string]bool) {
	for _, name := range p.Override.Selector {
		if !known[name] {
			b.fail("policy "+p.Name, "selects the component "+yamldoc.Clip(name)+", which the application does not have; it has "+listed(slices.Sorted(maps.Keys(known))))
		}
	}
	for _, c := range p.Override.Components {
		if c.Name != "" && !known[c.Name] {
			b.fail("policy "+p.Name, "changes the component "+yamldoc.Clip(c.Name)+", which the application does not have; it has "+listed(slices.Sorted(maps.Keys(known))))
		}
	}
}

// patches returns the patches for a component, in order.
func (o *Override) patches(component string) (patches []placement.Patch) {
	for _, c := range o.Components {
		if c.Name == "" || c.Name == component {
			patches = append(patches, c.Patches...)
		}
	}
	return patches
}

// selected returns the objects of a component for an override, which selects objects by name.
func (b *publisher) selected(at string, p *Policy, c Component) (list []placement.ObjectSelector) {
	for j, ref := range c.Objects {
		if ref.Name == "" {
			b.fail(at+".properties.objects["+itoa(j)+"]", "policy "+p.Name+" changes it, and that needs a name rather than labels")
			continue
		}
		list = append(list, placement.ObjectSelector{Group: ref.Group, Version: ref.Version, Kind: ref.Kind, Name: ref.Name})
	}
	return list
}
