package migrate

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/hub/internal/api"
)

// TakeOver removes the objects that KubeFleet keeps for itself from the hub and the members, after
// writing them to Config.Backup, so that a hub of package hub can serve the objects of people. It
// does not touch workloads. The error is a *[RefusedError] while [Plan.Blockers] is not empty.
// TakeOver may be repeated with the same file until it returns nil. After that, or if an agent of
// KubeFleet has served in between, it needs another file.
func (m *Migration) TakeOver(ctx context.Context) error {
	if err := m.takeOver(ctx); err != nil {
		return fmt.Errorf("migrate: take-over: %w", err)
	}
	return nil
}

func (m *Migration) takeOver(ctx context.Context) error {
	s, err := m.read(ctx)
	if err != nil {
		return err
	}
	b, err := openBackup(m.cfg.Backup, takeOver, s.hubUID)
	if err != nil {
		return err
	}
	for cluster, objects := range s.removals() {
		if err := b.continues(cluster, objects); err != nil {
			return err
		}
	}
	blockers, err := m.takeOverBlockers(ctx, s, b.begun)
	if err != nil {
		return err
	}
	if len(blockers) > 0 {
		return &RefusedError{blockers}
	}
	if err := m.saveTakeOver(b, s); err != nil {
		return err
	}
	for _, w := range s.webhooks {
		if err := m.removeWebhook(ctx, w); err != nil {
			return err
		}
	}
	for _, member := range s.members {
		if err := m.releaseMember(ctx, member); err != nil {
			return err
		}
	}
	if err := m.stillStopped(ctx, s); err != nil {
		return err
	}
	for _, gvr := range kept() {
		for _, obj := range s.kept[gvr] {
			if err := m.removeFromHub(ctx, targetOf(gvr, obj)); err != nil {
				return err
			}
		}
	}
	if err := m.releaseDeclared(ctx, s); err != nil {
		return err
	}
	return b.complete()
}

// removals returns the objects that a take-over removes, by cluster.
func (s *survey) removals() map[string][]*unstructured.Unstructured {
	out := map[string][]*unstructured.Unstructured{}
	for _, gvr := range kept() {
		out[onHub] = append(out[onHub], s.kept[gvr]...)
	}
	out[onHub] = append(out[onHub], s.webhooks...)
	for _, member := range s.members {
		out[member.name] = append(out[member.name], member.applied...)
	}
	return out
}

// takeOverBlockers returns the blockers of the plan. A take-over that has begun has fewer blockers,
// because the Works and bindings for the others may be removed already.
func (m *Migration) takeOverBlockers(ctx context.Context, s *survey, begun bool) ([]string, error) {
	if begun {
		return slices.Concat(s.serving(), s.running(), s.unreadable()), nil
	}
	want, err := m.want(ctx, s)
	if err != nil {
		return nil, err
	}
	return newPlan(s, want, m.cfg.AcceptDifferences).Blockers, nil
}

// running returns texts about the running agents of KubeFleet.
func (s *survey) running() (out []string) {
	for _, a := range s.agents {
		if a.Running {
			out = append(out, fmt.Sprintf("%s of KubeFleet: stop it", a))
		}
	}
	return out
}

// unreadable returns texts about the members that cannot be read.
func (s *survey) unreadable() (out []string) {
	for _, member := range s.members {
		if member.err != nil {
			out = append(out, fmt.Sprintf("member %s cannot be read: %v", member.name, member.err))
		}
	}
	return out
}

func (m *Migration) saveTakeOver(b *backup, s *survey) error {
	for cluster, objects := range s.removals() {
		for _, obj := range objects {
			b.add(cluster, obj)
		}
	}
	if err := b.save(); err != nil {
		return err
	}
	m.done(m.hub, "%d objects are in %s", len(b.Objects), b.path)
	return nil
}

func (m *Migration) removeWebhook(ctx context.Context, obj *unstructured.Unstructured) error {
	for _, w := range webhooks() {
		if w.name == obj.GetName() {
			return m.removeFromHub(ctx, targetOf(w.gvr, obj))
		}
	}
	return nil
}

func (m *Migration) removeFromHub(ctx context.Context, t target) error {
	removed, err := m.hub.remove(ctx, t)
	if removed {
		m.done(m.hub, "%s is removed", t)
	}
	return err
}

// stillStopped returns an error if an agent runs now: when a Work is removed, a running member
// agent would remove the Work's objects.
func (m *Migration) stillStopped(ctx context.Context, s *survey) error {
	clusters := []*cluster{m.hub}
	for _, member := range s.members {
		clusters = append(clusters, member.cluster)
	}
	for _, c := range clusters {
		agents, err := c.agents(ctx, m.now())
		if err != nil {
			return err
		}
		for _, a := range agents {
			if a.Running {
				return fmt.Errorf("%s: %w", a, errStopped)
			}
		}
	}
	return nil
}

// releaseDeclared removes KubeFleet's finalizers from the objects of people. It marks a run that
// KubeFleet has processed as started, so that no hub starts it again. It removes the agents'
// reports from members, because an old heartbeat would keep new placements away from them.
func (m *Migration) releaseDeclared(ctx context.Context, s *survey) error {
	for _, gvr := range declared() {
		for _, obj := range s.declared[gvr] {
			t := targetOf(gvr, obj)
			decide := dropFinalizers
			if slices.Contains(bothScopes(api.RunKind), gvr) && readRun(obj).State != RunNew {
				decide = markBegun
			}
			changed, err := m.hub.change(ctx, t, decide)
			if err != nil {
				return err
			}
			if changed {
				m.done(m.hub, "%s is released", t)
			}
			if gvr == api.MemberGVR() {
				if err := m.dropAgentStatus(ctx, gvr, obj); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// begunByKubeFleet is the name of an engine run that never existed.
const begunByKubeFleet = "kubefleet"

// markBegun returns the changes of dropFinalizers, and marks a run as started.
func markBegun(obj *metav1.PartialObjectMetadata) map[string]any {
	fields := dropFinalizers(obj)
	mark := string(obj.UID) + "/" + begunByKubeFleet
	if obj.Annotations[api.AnnotationRunUID] != "" {
		return fields
	}
	if fields == nil {
		fields = map[string]any{}
	}
	fields["annotations"] = map[string]any{api.AnnotationRunUID: mark}
	return fields
}

func (m *Migration) dropAgentStatus(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured) error {
	if _, has, _ := unstructured.NestedSlice(obj.Object, "status", "agentStatus"); !has {
		return nil
	}
	patch := []byte(fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"agentStatus":null}}`, obj.GetUID()))
	o := metav1.PatchOptions{FieldManager: fieldManager}
	_, err := m.hub.objects.Resource(gvr).Patch(ctx, obj.GetName(), types.MergePatchType, patch, o, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("hub: status of %s: %w", nameOf(obj), err)
	}
	m.done(m.hub, "%s has no heartbeat of an agent any more", nameOf(obj))
	return nil
}
