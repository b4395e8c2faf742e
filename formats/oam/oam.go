// Package oam converts the files of a KubeVela application, in the form that ACK One accepts, to
// Slipway's types, and a run of the application to KubeVela's status.
//
//	Application (core.oam.dev/v1beta1)   Application
//	Policy (core.oam.dev/v1alpha1)       Policy, of type topology or override
//	Workflow (core.oam.dev/v1alpha1)     Workflow: deploy, suspend and step-group
//	everything else                      *unstructured.Unstructured
//
// [Read] and [ReadFS] read them, [Publish] makes a [Release] of an application: the placement and
// the run for an engine, in profile Workflow. [NewStatus] returns the status of the Application
// for its run. The methods of [Record] return the commands that suspend, resume, terminate and
// restart it.
//
// A step is a stage, a step-group a stage whose steps are its groups. In mode DAG the workflow is
// one stage, [GraphName], whose groups depend on each other. A deploy with auto: false requests
// an approval before it begins. A suspend is a stage without clusters: with a duration it waits,
// without one it requests an approval. A user approves by resuming the workflow, and the identity
// of the user is recorded. After a failure the remaining steps are skipped except for steps that
// always run. A failing step is tried eleven times.
//
// It differs from KubeVela as follows. A cluster is in one step of a workflow, because a run
// updates it once. The clusters of a topology are picked when the release is made, not when the
// step begins. If a user skips a step during the run, the steps that depend on it are not
// skipped. Conditions are "always" and "false": expressions are not evaluated. The timeout of a
// step does not include the time during which the step is suspended; the timeout of a suspend step
// limits how long it waits to be resumed. Attempts and waits are in the run's record, so a restart
// of the controller loses none. A step that waited for its next attempt when the workflow was
// suspended is tried at once after a resume, as one additional attempt. Parallelism limits
// components on clusters. Because a cluster receives all components at once, the number of
// concurrent clusters is the parallelism divided by the number of components, and at least one. A
// policy in the application takes precedence over a Policy object with the same name. A restart
// makes another run, by one write.
//
// KubeVela has no automatic rollback. The annotation slipway.dev/rollback of an Application
// requests a rollback. Its value is YAML in the form of [stages.RollbackPolicy]:
//
//	slipway.dev/rollback: "{}"
//	slipway.dev/rollback: "{causes: [BudgetExceeded], newClusters: Leave, approval: {}}"
//
// Then a failing step ends the workflow as failed, even if the host suspends workflows on
// failure. The steps that always run still run, and then another run rolls back every changed
// cluster, the last step first. Terminating a workflow, or publishing another version, rolls
// nothing back. The annotation is part of the release: if only the annotation is edited, the
// application is edited.
//
// Reading is strict: an unknown field and an unsupported feature are errors, and an error lists
// all problems with lines. Everything here is a pure function of its arguments, except for
// reading from the reader.
package oam

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// PublishVersionAnnotation is an annotation of an Application. If an Application has it, its
// changes are rolled out only when the value of the annotation changes.
const PublishVersionAnnotation = "app.oam.dev/publishVersion"

// RollbackAnnotation is Slipway's annotation of an Application that requests a rollback of a
// failed release, see package documentation.
const RollbackAnnotation = "slipway.dev/rollback"

// Documents are the documents of an input, each list in the order of the input.
type Documents struct {
	Applications []Application
	Policies     []Policy
	Workflows    []Workflow
	// Objects are the documents of all other kinds, unchanged.
	Objects []*unstructured.Unstructured
	// All are the unchanged documents of every kind: the source from which package delivery reads.
	All []*unstructured.Unstructured
}

// Clusters returns the names of the clusters in topologies, ascending. A host that has no inventory
// needs these clusters at least.
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

// Application has the components to roll out, and their workflow.
type Application struct {
	Namespace string
	Name      string
	// PublishVersion is the value of [PublishVersionAnnotation]; empty means that every change of
	// the application is rolled out.
	PublishVersion string
	// Rollback is the value of [RollbackAnnotation]; nil if it is absent.
	Rollback   *stages.RollbackPolicy
	Components []Component
	// Policies are the policies in the application. They take precedence over Policy objects of the
	// same name.
	Policies []Policy
	// WorkflowRef names a Workflow of the namespace. It is empty if there are Steps. Both may be
	// empty.
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

// ObjectRef names an object in the application's namespace, or all objects with Labels.
type ObjectRef struct {
	Group   string
	Version string
	Kind    string
	Name    string
	Labels  map[string]string
}

// PolicyType is the type of a [Policy].
type PolicyType string

// The supported types of policies.
const (
	TopologyType PolicyType = "topology"
	OverrideType PolicyType = "override"
)

// Policy selects the clusters of a step, or changes the components there.
type Policy struct {
	// Namespace is empty for a policy inside an application.
	Namespace string
	Name      string
	Type      PolicyType
	// Topology or Override is set, according to Type.
	Topology *Topology
	Override *Override
}

// Topology picks clusters by their names, in this order, or by their labels.
type Topology struct {
	Clusters []string
	// Labels select clusters if there are no names; an empty map selects all, nil none.
	Labels map[string]string
	// AllowEmpty reports whether the topology may match no cluster.
	AllowEmpty bool
}

// Override changes the components of a step, or leaves some of them out.
type Override struct {
	// Selector names the deployed components; empty means all.
	Selector   []string
	Components []ComponentPatch
}

// ComponentPatch changes the objects of components, by the traits scaler and json-patch.
type ComponentPatch struct {
	// Name is the name of a component; empty means all.
	Name    string
	Patches []placement.Patch
}

// ExecuteMode is the order of steps.
type ExecuteMode string

// The modes.
const (
	// StepByStep runs steps one after the other.
	StepByStep ExecuteMode = "StepByStep"
	// DAG runs a step as soon as its dependencies have ended.
	DAG ExecuteMode = "DAG"
)

// Mode is the mode of a workflow. If empty, Steps is StepByStep and SubSteps is DAG.
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

// StepType is the type of a [Step].
type StepType string

// The supported types of steps.
const (
	DeployStep  StepType = "deploy"
	SuspendStep StepType = "suspend"
	GroupStep   StepType = "step-group"
)

// Condition says, in addition to its position, when a [Step] runs.
type Condition string

// The supported conditions.
const (
	// Default runs a step if no step before it has failed.
	Default Condition = ""
	// Always also runs the step after a failure and after a termination.
	Always Condition = "always"
	// Never skips the step.
	Never Condition = "false"
)

// Step is a step of a workflow. Names are unique in it, including steps in groups.
type Step struct {
	Name string
	Type StepType
	If   Condition
	// Timeout limits the duration of the step from its first cluster on; 0 means no limit. The time
	// during which the step is suspended does not count, except for a suspend step, which fails if
	// it is not resumed in time.
	Timeout   time.Duration
	DependsOn []string
	// Deploy is set for a deploy, Suspend for a suspend, Steps for a step-group.
	Deploy  *Deploy
	Suspend *Suspend
	Steps   []Step
	// Mode is the order of the Steps of a step-group; empty means the mode of the workflow.
	Mode ExecuteMode
}

// DefaultParallelism is the default Parallelism of a [Deploy].
const DefaultParallelism = 5

// Deploy delivers the application to the clusters of policies.
type Deploy struct {
	// Policies are the names of topologies, whose clusters add up, and of overrides.
	Policies []string
	// Manual reports whether the step is suspended before it begins (auto: false).
	Manual bool
	// Parallelism is the maximum number of components that are being delivered at the same time,
	// over all clusters. At least one cluster is updated in any case.
	Parallelism int
}

// Suspend waits until a user resumes the workflow, or for Duration if it is not 0.
type Suspend struct {
	// Message is for people.
	Message  string
	Duration time.Duration
}
