package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/hub/internal/api"
)

// survey is the state of a fleet.
type survey struct {
	// hubUID identifies the hub.
	hubUID string
	// kept are the objects that KubeFleet keeps for itself, declared the objects of people, both by
	// kind.
	kept, declared map[schema.GroupVersionResource][]*unstructured.Unstructured
	// projections are the objects that a hub of package hub derived from others.
	projections map[schema.GroupVersionResource][]*unstructured.Unstructured
	// hub is the Lease of a hub of package hub, nil if there is none.
	hub      *Agent
	webhooks []*unstructured.Unstructured
	agents   []Agent
	members  []*memberSurvey
}

// memberSurvey is the state of a member.
type memberSurvey struct {
	name string
	// err is the reason why the member cannot be read.
	err     error
	cluster *cluster
	// applied are the AppliedWorks for Works in the namespace of the member. Foreign counts the
	// AppliedWorks of other fleets.
	applied []*unstructured.Unstructured
	foreign int
}

// read reads the fleet. A member that cannot be read is no error; its memberSurvey has the reason.
func (m *Migration) read(ctx context.Context) (*survey, error) {
	byKind := func() map[schema.GroupVersionResource][]*unstructured.Unstructured {
		return map[schema.GroupVersionResource][]*unstructured.Unstructured{}
	}
	s := &survey{kept: byKind(), declared: byKind(), projections: byKind()}
	var err error
	if s.hubUID, err = m.hub.uid(ctx); err != nil {
		return nil, err
	}
	for _, gvr := range kept() {
		all, err := m.hub.list(ctx, gvr)
		if err != nil {
			return nil, err
		}
		for _, obj := range all {
			if isProjection(obj) {
				s.projections[gvr] = append(s.projections[gvr], obj)
			} else {
				s.kept[gvr] = append(s.kept[gvr], obj)
			}
		}
	}
	for _, gvr := range declared() {
		if s.declared[gvr], err = m.hub.list(ctx, gvr); err != nil {
			return nil, err
		}
	}
	if s.webhooks, err = m.webhooks(ctx); err != nil {
		return nil, err
	}
	if s.hub, err = m.readServing(ctx); err != nil {
		return nil, err
	}
	if s.agents, err = m.hub.agents(ctx, m.now()); err != nil {
		return nil, err
	}
	for _, name := range s.memberNames() {
		member := m.readMember(ctx, s, name)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s.members = append(s.members, member)
	}
	return s, nil
}

// webhooks returns the webhook configurations of the hub agent.
func (m *Migration) webhooks(ctx context.Context) (all []*unstructured.Unstructured, err error) {
	for _, w := range webhooks() {
		obj, err := m.hub.objects.Resource(w.gvr).Get(ctx, w.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("hub: %s: %w", w.name, err)
		}
		all = append(all, obj)
	}
	return all, nil
}

// memberNames returns the names of the MemberClusters, and of the clusters that appear only in
// Works and bindings.
func (s *survey) memberNames() []string {
	var names []string
	for _, obj := range s.declared[api.MemberGVR()] {
		names = append(names, obj.GetName())
	}
	for _, w := range s.kept[workGVR()] {
		if name, ok := strings.CutPrefix(w.GetNamespace(), memberNamespace); ok {
			names = append(names, name)
		}
	}
	for _, gvr := range bothScopes(api.BindingKind) {
		for _, b := range s.kept[gvr] {
			names = append(names, api.SpecString(b, "targetCluster"))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (m *Migration) readMember(ctx context.Context, s *survey, name string) *memberSurvey {
	out := &memberSurvey{name: name}
	if out.cluster, out.err = m.member(ctx, name); out.err != nil {
		return out
	}
	agents, err := out.cluster.agents(ctx, m.now())
	if err != nil {
		out.err = err
		return out
	}
	s.agents = append(s.agents, agents...)
	all, err := out.cluster.list(ctx, appliedWorkGVR())
	if err != nil {
		out.err = err
		return out
	}
	for _, obj := range all {
		if api.SpecString(obj, "workNamespace") == memberNamespace+name {
			out.applied = append(out.applied, obj)
		} else {
			out.foreign++
		}
	}
	return out
}

// placements returns the placements of both scopes.
func (s *survey) placements() (all []*unstructured.Unstructured) {
	for _, gvr := range bothScopes(api.PlacementKind) {
		all = append(all, s.declared[gvr]...)
	}
	return all
}

// runs returns the runs of both scopes.
func (s *survey) runs() (all []*unstructured.Unstructured) {
	for _, gvr := range bothScopes(api.RunKind) {
		all = append(all, s.declared[gvr]...)
	}
	return all
}

// of returns the objects of a kind that belong to a placement. It does not work for Works, because
// they are in the namespaces of members.
func (s *survey) of(base string, k api.Key) (all []*unstructured.Unstructured) {
	for _, obj := range s.kept[api.ScopeOf(k).GVR(base)] {
		if obj.GetNamespace() == k.Namespace && obj.GetLabels()[api.LabelParent] == k.Name {
			all = append(all, obj)
		}
	}
	return all
}

// worksOf returns the Works of a placement on a member.
func (s *survey) worksOf(k api.Key, member string) (all []*unstructured.Unstructured) {
	for _, w := range s.kept[workGVR()] {
		labels := w.GetLabels()
		if w.GetNamespace() == memberNamespace+member && labels[api.LabelParent] == k.Name && labels[labelNamespace] == k.Namespace {
			all = append(all, w)
		}
	}
	return all
}
