// Package oam answers how the files of a KubeVela application, as ACK One takes them,
// become Slipway's nouns, and what the run of one is in KubeVela's words.
//
//	Application (core.oam.dev/v1beta1)   Application
//	Policy (core.oam.dev/v1alpha1)       Policy, of type topology or override
//	Workflow (core.oam.dev/v1alpha1)     Workflow: deploy, suspend and step-group
//	everything else                      *unstructured.Unstructured
//
// [Read] and [ReadFS] read them, [Publish] makes a [Release] of an application: the placement and
// the run that an engine takes, in profile Workflow. [NewStatus] says what the run
// has come to as the status of the Application, and the methods of [Record] what it
// takes to suspend, resume, terminate and restart it.
//
// A step is a stage, a step-group a stage whose steps are its groups; in mode DAG
// the workflow is one stage, [GraphName], whose groups depend on each other. A deploy
// with auto: false asks for an approval before it begins, a suspend is a stage that
// only holds the run: with a duration it waits, without one it asks. Resuming is the
// approval, and who resumed is recorded. After a failure what is left is skipped but
// for steps that run always, and a step that fails is tried eleven times.
//
// It differs from KubeVela in this: a cluster is in one step of a workflow, since a run
// updates it once. Which clusters a topology picks is decided when the release is
// made, not when the step begins. Steps that depend on a step which is skipped by
// a user while the run goes on are not skipped. Conditions are "always" and
// "false": expressions are not evaluated. The time in which a step is suspended does
// not count for its timeout; that of a suspend step is how long it waits to be resumed.
// Attempts and waits are in the run's record, so a restart of the controller loses
// none; what waited for its next attempt when the workflow was suspended is tried at
// once when it goes on, as one attempt more. Parallelism counts components on clusters, and a cluster
// takes all components at once, so that as many clusters go together as components
// allow, at least one. A policy in the application goes before an object of its name.
// Restarting makes another run, by one write.
//
// KubeVela takes nothing back by itself. The annotation slipway.dev/rollback of an
// Application asks for that, in YAML as [stages.RollbackPolicy] has it:
//
//	slipway.dev/rollback: "{}"
//	slipway.dev/rollback: "{causes: [BudgetExceeded], newClusters: Leave, approval: {}}"
//
// A step that fails then ends the workflow as failed, also where the host suspends
// workflows on failure; what runs always still runs, and then another run takes every
// cluster that was changed back to what it had, the last step first. Who terminates a
// workflow, or publishes another version, takes nothing back. The annotation is part
// of the release: an edit of it alone counts as one of the application.
//
// Reading is strict: an unknown field and what is not supported are errors, and all
// that is wrong is told at once, with lines. Everything here is a pure function of
// its arguments, but for reading the reader.
package oam

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// PublishVersionAnnotation is the annotation of an Application whose value has to
// change before anything is rolled out again.
const PublishVersionAnnotation = "app.oam.dev/publishVersion"

// RollbackAnnotation is Slipway's annotation of an Application which asks that a
// release that fails is taken back, see package documentation.
const RollbackAnnotation = "slipway.dev/rollback"

// Documents are what was read, each list in the order of the input.
type Documents struct {
	Applications []Application
	Policies     []Policy
	Workflows    []Workflow
	// Objects are the documents of all other kinds, as they stand.
	Objects []*unstructured.Unstructured
	// All are the documents of every kind as they stand, for a source that has what package delivery reads from it.
	All []*unstructured.Unstructured
}

// Clusters returns the names of the clusters that topologies name, ascending: those that a host has to have where it
// knows of no others.
func (d Documents) Clusters() []string {
	named := sets.New[string]()
	policies := slices.Clone(d.Policies)
	for _, app := range d.Applications {
		policies = append(policies, app.Policies...)
	}
	for _, p := range policies {
		if p.Topology != nil {
			named.Insert(p.Topology.Clusters...)
		}
	}
	return sets.List(named)
}

// Application is what is rolled out, and by which workflow.
type Application struct {
	Namespace string
	Name      string
	// PublishVersion is the value of [PublishVersionAnnotation]; empty means that
	// every change of the application rolls out.
	PublishVersion string
	// Rollback is what [RollbackAnnotation] says; nil where it is absent.
	Rollback   *stages.RollbackPolicy
	Components []Component
	// Policies are those that stand in the application. One of them goes before a
	// Policy object of the same name.
	Policies []Policy
	// WorkflowRef names a Workflow of the namespace; empty where Steps are given, or
	// neither.
	WorkflowRef string
	Steps       []Step
	Mode        Mode
}

// RefObjects is the type of a component that names objects of the hub.
const RefObjects = "ref-objects"

// Component is a part of an application; its type is [RefObjects].
type Component struct {
	Name    string
	Objects []ObjectRef
}

// ObjectRef names an object in the application's namespace, or with Labels all that
// have these.
type ObjectRef struct {
	Group   string
	Version string
	Kind    string
	Name    string
	Labels  map[string]string
}

// PolicyType is what a [Policy] is about.
type PolicyType string

// The types of policy that are read.
const (
	TopologyType PolicyType = "topology"
	OverrideType PolicyType = "override"
)

// Policy says where a step deploys, or what differs there.
type Policy struct {
	// Namespace is empty for one that stands in an application.
	Namespace string
	Name      string
	Type      PolicyType
	// Topology or Override is set, as Type says.
	Topology *Topology
	Override *Override
}

// Topology picks clusters by their names, in this order, or by their labels.
type Topology struct {
	Clusters []string
	// Labels select clusters where there are no names; an empty map selects all, a
	// nil one none.
	Labels map[string]string
	// AllowEmpty reports whether no cluster may match.
	AllowEmpty bool
}

// Override changes the components of a step, or leaves some of them out.
type Override struct {
	// Selector names the components that are deployed; empty means all.
	Selector   []string
	Components []ComponentPatch
}

// ComponentPatch changes the objects of components, by the traits scaler and
// json-patch.
type ComponentPatch struct {
	// Name is that of a component; empty means all.
	Name    string
	Patches []placement.Patch
}

// ExecuteMode says how steps follow each other.
type ExecuteMode string

// The modes.
const (
	// StepByStep runs steps one after the other.
	StepByStep ExecuteMode = "StepByStep"
	// DAG runs a step as soon as those it depends on have ended.
	DAG ExecuteMode = "DAG"
)

// Mode is that of a workflow. Steps is StepByStep when empty, SubSteps DAG.
type Mode struct {
	Steps    ExecuteMode
	SubSteps ExecuteMode
}

// Workflow is a list of steps that applications share.
type Workflow struct {
	Namespace string
	Name      string
	Mode      Mode
	Steps     []Step
}

// StepType is what a [Step] does.
type StepType string

// The types of step that are read.
const (
	DeployStep  StepType = "deploy"
	SuspendStep StepType = "suspend"
	GroupStep   StepType = "step-group"
)

// Condition says when a [Step] runs, besides its place.
type Condition string

// The conditions that are read.
const (
	// Default runs a step if nothing has failed before it.
	Default Condition = ""
	// Always runs it after a failure and after a termination too.
	Always Condition = "always"
	// Never skips it.
	Never Condition = "false"
)

// Step is a step of a workflow. Names are unique in it, those in groups too.
type Step struct {
	Name string
	Type StepType
	If   Condition
	// Timeout is how long the step may take from its first cluster on; 0 means for
	// ever. The time in which the step is suspended does not count, but for one of
	// type suspend: that fails when it was not resumed in time.
	Timeout   time.Duration
	DependsOn []string
	// Deploy is that of a deploy, Suspend that of a suspend, Steps those of a
	// step-group.
	Deploy  *Deploy
	Suspend *Suspend
	Steps   []Step
	// Mode is how the Steps of a step-group follow each other; empty means as the
	// workflow says.
	Mode ExecuteMode
}

// DefaultParallelism is how many clusters a deploy updates at the same time
// where it does not say.
const DefaultParallelism = 5

// Deploy brings the application to the clusters of policies.
type Deploy struct {
	// Policies name the topologies, whose clusters add up, and overrides.
	Policies []string
	// Manual reports whether the step is suspended before it begins (auto: false).
	Manual      bool
	Parallelism int
}

// Suspend waits for a user to resume the workflow, or for Duration where that
// is not 0.
type Suspend struct {
	// Message is for people.
	Message  string
	Duration time.Duration
}
