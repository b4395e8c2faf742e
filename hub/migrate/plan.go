package migrate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/placement"
)

// Plan describes a take-over.
type Plan struct {
	Placements []Placement `json:"placements"`
	Members    []Member    `json:"members"`
	Runs       []Run       `json:"runs"`
	Agents     []Agent     `json:"agents"`
	// Removed counts by resource the objects on the hub that a take-over removes after writing them
	// to its backup.
	Removed map[string]int `json:"removed"`
	// Blockers are the obstacles to remove before a take-over; it is refused while there is one.
	Blockers []string `json:"blockers"`
	// Notes are facts to know before a take-over.
	Notes []string `json:"notes"`
}

// Placement is KubeFleet's state of a placement.
type Placement struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Strategy is the type of the rollout strategy, RollingUpdate or External; empty if Slipway
	// refuses the placement.
	Strategy string `json:"strategy,omitempty"`
	// Snapshot is the index of the latest resource snapshot; empty if there is none.
	Snapshot string             `json:"snapshot,omitempty"`
	Clusters []PlacementCluster `json:"clusters"`
	// Refused is the reason why Slipway would not serve the placement.
	Refused string `json:"refused,omitempty"`
}

// PlacementCluster is a cluster that has a binding to a placement, or Works of it.
type PlacementCluster struct {
	Name string `json:"name"`
	// State is the state of the binding: Bound, Scheduled or Unscheduled; empty if there is no
	// binding.
	State string `json:"state,omitempty"`
	// Snapshot is the name of the cluster's desired resource snapshot.
	Snapshot string `json:"snapshot,omitempty"`
	Works    []Work `json:"works"`
	// Differences are differences between the Works and the objects that Slipway would apply now.
	Differences []Difference `json:"differences"`
}

// Work is a Work of KubeFleet.
type Work struct {
	Name    string `json:"name"`
	Objects int    `json:"objects"`
	// Applied and Available are the statuses of the conditions of these types; empty if the conditions
	// are about another generation.
	Applied   string `json:"applied,omitempty"`
	Available string `json:"available,omitempty"`
}

// Change is the effect that Slipway would have on an object.
type Change string

// The changes.
const (
	// Create: no Work has the object.
	Create Change = "Create"
	// Update: a Work has the object with other content.
	Update Change = "Update"
	// Leave: a Work has the object, and Slipway would not place it. It stays on the member and
	// belongs to no placement.
	Leave Change = "Leave"
)

// Difference is an object that Slipway would place differently than a Work. It has no values of
// Secrets.
type Difference struct {
	Change    Change `json:"change"`
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Paths are JSON pointers to the differences, for Change Update.
	Paths []string `json:"paths,omitempty"`
}

func (d Difference) String() string {
	text := fmt.Sprintf("%s %s %s", d.Change, d.Kind, keyName(api.Key{Namespace: d.Namespace, Name: d.Name}))
	if len(d.Paths) > 0 {
		text += " " + strings.Join(d.Paths, " ")
	}
	return text
}

// Member is a member of the fleet.
type Member struct {
	Name string `json:"name"`
	// Error is the reason why the member cannot be read.
	Error string `json:"error,omitempty"`
	// AppliedWorks counts the AppliedWorks on the member, and Objects the objects that they own.
	AppliedWorks int `json:"appliedWorks"`
	Objects      int `json:"objects"`
}

// Plan reads the fleet and returns the plan of a take-over. It writes nothing.
func (m *Migration) Plan(ctx context.Context) (*Plan, error) {
	s, err := m.read(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	want, err := m.want(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	return newPlan(s, want, m.cfg.AcceptDifferences), nil
}

// planner builds a plan from a survey.
type planner struct {
	*survey
	plan   *Plan
	accept bool
}

func newPlan(s *survey, want map[api.Key]*wanted, accept bool) *Plan {
	p := &planner{survey: s, accept: accept, plan: &Plan{
		Placements: []Placement{}, Members: []Member{}, Runs: []Run{}, Agents: append([]Agent{}, s.agents...),
		Removed: map[string]int{}, Blockers: []string{}, Notes: []string{},
	}}
	p.plan.Blockers = append(p.plan.Blockers, slices.Concat(s.serving(), s.running())...)
	for _, obj := range s.runs() {
		p.addRun(readRun(obj))
	}
	clusters := s.clusters()
	for _, obj := range s.placements() {
		p.addPlacement(obj, want[api.KeyOf(obj)], clusters)
	}
	for _, member := range s.members {
		p.addMember(member)
	}
	for _, gvr := range bothScopes(api.StrategyKind) {
		for _, obj := range s.declared[gvr] {
			if _, err := kubefleet.StrategyOf(obj); err != nil {
				p.note("%s: no run of it is begun: %v", nameOf(obj), err)
			}
		}
	}
	p.addKept()
	return p.plan
}

func (p *planner) block(format string, args ...any) {
	p.plan.Blockers = append(p.plan.Blockers, fmt.Sprintf(format, args...))
}

func (p *planner) note(format string, args ...any) {
	p.plan.Notes = append(p.plan.Notes, fmt.Sprintf(format, args...))
}

func (p *planner) addRun(r Run) {
	p.plan.Runs = append(p.plan.Runs, r)
	switch r.State {
	case RunActive:
		p.block("%s is under way (%s): let it end, or delete it", r, r.Reason)
	case RunInitialized:
		p.note("%s is planned and was not started: create another one afterwards", r)
	case RunNew:
		p.note("%s is new: the hub begins it when it serves", r)
	case RunEnded:
	}
}

func (p *planner) addPlacement(obj *unstructured.Unstructured, w *wanted, clusters map[string]placement.Cluster) {
	k := api.KeyOf(obj)
	out := Placement{Kind: obj.GetKind(), Namespace: k.Namespace, Name: k.Name, Clusters: []PlacementCluster{}}
	if obj.GetDeletionTimestamp() != nil {
		p.block("%s is being deleted: let KubeFleet finish that", nameOf(obj))
	}
	for _, snap := range p.of(api.SnapshotKind, k) {
		if snap.GetLabels()[api.LabelLatest] == "true" {
			out.Snapshot = snap.GetLabels()[api.LabelResourceIndex]
		}
	}
	switch {
	case w.refused != nil:
		out.Refused = w.refused.Error()
		p.block("%s: Slipway does not serve it: %v", nameOf(obj), w.refused)
	case w.failed != nil:
		p.block("%s: what it selects cannot be taken: %v", nameOf(obj), w.failed)
		out.Strategy = string(w.rollout.Type)
	default:
		out.Strategy = string(w.rollout.Type)
		p.noteStrategy(obj, w)
	}
	for _, name := range p.clustersOf(k) {
		c := p.clusterOf(k, name)
		if w.refused == nil && w.failed == nil && len(c.Works) > 0 {
			c.Differences = p.differences(obj, w, clusters[name], p.worksOf(k, name))
		}
		p.checkCluster(obj, w, &c)
		out.Clusters = append(out.Clusters, c)
	}
	p.plan.Placements = append(p.plan.Placements, out)
}

// noteStrategy adds notes about the consequences of a placement's strategies.
func (p *planner) noteStrategy(obj *unstructured.Unstructured, w *wanted) {
	if w.placement.ApplyStrategy.WhenToTakeOver == apply.Never {
		p.note("%s: whenToTakeOver is Never, so that nothing that is there will be taken over: set Always or IfNoDiff first", nameOf(obj))
	}
	if w.rollout.Type == v1beta1.ExternalRolloutStrategyType {
		p.note("%s: its strategy is External: create a run once the hub serves, before that it does not know what the members have", nameOf(obj))
	}
}

// clustersOf returns the clusters with a binding or a Work of a placement.
func (p *planner) clustersOf(k api.Key) []string {
	names := map[string]bool{}
	for _, b := range p.of(api.BindingKind, k) {
		names[api.SpecString(b, "targetCluster")] = true
	}
	for _, m := range p.members {
		if len(p.worksOf(k, m.name)) > 0 {
			names[m.name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// clusterOf returns KubeFleet's state of a placement on a cluster.
func (p *planner) clusterOf(k api.Key, name string) PlacementCluster {
	c := PlacementCluster{Name: name, Works: []Work{}, Differences: []Difference{}}
	for _, b := range p.of(api.BindingKind, k) {
		if api.SpecString(b, "targetCluster") == name {
			c.State, c.Snapshot = api.SpecString(b, "state"), api.SpecString(b, "resourceSnapshotName")
		}
	}
	for _, w := range p.worksOf(k, name) {
		c.Works = append(c.Works, Work{
			Name: w.GetName(), Objects: len(manifestsOf(w)),
			Applied: currentStatus(w, api.ConditionApplied), Available: currentStatus(w, api.ConditionAvailable),
		})
	}
	return c
}

func currentStatus(w *unstructured.Unstructured, kind string) string {
	if c := api.ConditionOf(w, kind); c.ObservedGeneration == w.GetGeneration() {
		return c.Status
	}
	return ""
}

// checkCluster adds the obstacles to taking over a cluster. A difference is an obstacle under
// RollingUpdate: the hub would change all clusters at once, because for the new hub no cluster has
// an earlier snapshot.
func (p *planner) checkCluster(obj *unstructured.Unstructured, w *wanted, c *PlacementCluster) {
	at := nameOf(obj) + " on " + c.Name
	if c.State == string(v1beta1.BindingStateUnscheduled) {
		p.block("%s: it is to be removed from there (Unscheduled): let KubeFleet finish that", at)
	}
	for _, work := range c.Works {
		if work.Applied != "True" {
			p.note("%s: Work %s is not applied: what it could not apply has no owner there, and is tried by the hub", at, work.Name)
		}
	}
	for _, d := range c.Differences {
		if w.rollout.Type == v1beta1.ExternalRolloutStrategyType || p.accept || d.Change == Leave {
			p.note("%s differs: %s", at, d)
			continue
		}
		p.block("%s: %s: the hub would do that on all clusters at once: let KubeFleet roll it out first, or accept it", at, d)
	}
}

// differences compares the objects that Slipway would place on a cluster with the Works.
func (p *planner) differences(
	obj *unstructured.Unstructured, w *wanted, c placement.Cluster, works []*unstructured.Unstructured,
) []Difference {
	out := []Difference{}
	now, err := w.on(c)
	if err != nil {
		p.block("%s on %s: its overrides cannot be carried out: %v", nameOf(obj), c.Name, err)
		return out
	}
	var have []*unstructured.Unstructured
	for _, work := range works {
		have = append(have, manifestsOf(work)...)
	}
	pairs, rest := drift.Match(now, have)
	for _, pair := range pairs {
		switch d, err := compare(pair); {
		case err != nil:
			p.block("%s on %s: %s cannot be compared: %v", nameOf(obj), c.Name, nameOf(pair.Hub), err)
		case d != nil:
			out = append(out, *d)
		}
	}
	for _, left := range rest {
		out = append(out, differenceOf(Leave, left))
	}
	return out
}

// compare returns the difference between an object and its version in a Work, nil if there is none.
func compare(pair drift.Pair) (*Difference, error) {
	if pair.Member == nil {
		d := differenceOf(Create, pair.Hub)
		return &d, nil
	}
	report, err := drift.Compare(pair.Hub, pair.Member, drift.Options{Comparison: drift.Full})
	if err != nil || !report.Drifted() {
		return nil, err
	}
	d := differenceOf(Update, pair.Hub)
	for _, one := range report.Differences {
		d.Paths = append(d.Paths, one.Path)
	}
	return &d, nil
}

func differenceOf(change Change, obj *unstructured.Unstructured) Difference {
	kind := obj.GroupVersionKind()
	return Difference{Change: change, Group: kind.Group, Kind: kind.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// manifestsOf returns the objects in a Work.
func manifestsOf(work *unstructured.Unstructured) (all []*unstructured.Unstructured) {
	manifests, _, _ := unstructured.NestedSlice(work.Object, "spec", "workload", "manifests")
	for _, one := range manifests {
		if object, ok := one.(map[string]any); ok {
			all = append(all, &unstructured.Unstructured{Object: object})
		}
	}
	return all
}

func (p *planner) addMember(s *memberSurvey) {
	out := Member{Name: s.name, AppliedWorks: len(s.applied)}
	if s.err != nil {
		out.Error = s.err.Error()
		p.block("member %s cannot be read: %v", s.name, s.err)
	}
	for _, a := range s.applied {
		out.Objects += len(appliedResources(a))
		if a.GetDeletionTimestamp() != nil && !slices.Contains(a.GetFinalizers(), "orphan") {
			p.block("member %s: AppliedWork %s is being deleted, and its objects with it: let that end", s.name, a.GetName())
		}
	}
	if s.foreign > 0 {
		p.note("member %s: %d AppliedWorks are of another fleet and stay", s.name, s.foreign)
	}
	p.plan.Members = append(p.plan.Members, out)
}

// addKept counts the objects to remove. A Work or binding that KubeFleet is deleting is an
// obstacle, because its objects may still be removed from members.
func (p *planner) addKept() {
	for _, gvr := range kept() {
		for _, obj := range p.kept[gvr] {
			p.plan.Removed[gvr.Resource]++
			isWork := gvr == workGVR() || slices.Contains(bothScopes(api.BindingKind), gvr)
			if isWork && obj.GetDeletionTimestamp() != nil {
				p.block("%s is being deleted: let KubeFleet finish that", nameOf(obj))
			}
		}
	}
	for _, w := range p.webhooks {
		p.plan.Removed[strings.ToLower(w.GetKind())+"s"]++
	}
}
