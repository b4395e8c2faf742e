package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/restmapper"

	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/snapshot"
)

const (
	// ledgerNamespace is the namespace of the ledgers of package fleet on a member. They are
	// ConfigMaps with the key ledgerKey.
	ledgerNamespace, ledgerKey = "slipway-system", "ledger"
	// recordType is the type of the Secrets that hold the records of a hub.
	recordType = "slipway.dev/record"
)

func coreGVR(resource string) schema.GroupVersionResource {
	return corev1.SchemeGroupVersion.WithResource(resource)
}

func leaseGVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
}

// GiveBack removes the objects that a hub of package hub keeps for itself from the hub and the
// members, after writing its records and ledgers to Config.Backup, so that KubeFleet's agents can
// serve the objects of people. It does not touch workloads. The error is a *[RefusedError] while
// that hub leads, an agent of KubeFleet runs, or a run or a deletion is under way. GiveBack may be
// repeated with the same file until it returns nil. A later call needs a new file, and so does a
// repetition if the hub has served since the first call.
func (m *Migration) GiveBack(ctx context.Context) error {
	if err := m.giveBack(ctx); err != nil {
		return fmt.Errorf("migrate: give-back: %w", err)
	}
	return nil
}

func (m *Migration) giveBack(ctx context.Context) error {
	s, err := m.read(ctx)
	if err != nil {
		return err
	}
	records, err := m.readRecords(ctx)
	if err != nil {
		return err
	}
	b, err := openBackup(m.cfg.Backup, giveBack, s.hubUID)
	if err != nil {
		return err
	}
	if err := b.continues(onHub, records); err != nil {
		return err
	}
	if blockers := m.giveBackBlockers(s, b.begun); len(blockers) > 0 {
		return &RefusedError{blockers}
	}
	ledgers := map[string][]*unstructured.Unstructured{}
	for _, one := range s.members {
		if ledgers[one.name], err = one.cluster.ledgers(ctx); err != nil {
			return err
		}
		if err := b.continues(one.name, ledgers[one.name]); err != nil {
			return err
		}
	}
	if err := m.saveGiveBack(b, records, ledgers); err != nil {
		return err
	}
	for _, one := range s.members {
		if err := m.unmarkMember(ctx, one.cluster, ledgers[one.name]); err != nil {
			return err
		}
	}
	if err := m.clearHub(ctx, s, records); err != nil {
		return err
	}
	return b.complete()
}

// giveBackBlockers returns the obstacles to a give-back. A give-back that has begun does not wait
// for deletions, because the hub that would finish them must not start again.
func (m *Migration) giveBackBlockers(s *survey, begun bool) []string {
	out := slices.Concat(s.serving(), s.running(), s.unreadable())
	for _, obj := range s.runs() {
		if r := readRun(obj); r.State == RunActive {
			out = append(out, fmt.Sprintf("%s is under way (%s): let it end, or delete it", r, r.Reason))
		}
	}
	for _, obj := range s.placements() {
		if !begun && obj.GetDeletionTimestamp() != nil {
			out = append(out, nameOf(obj)+" is being deleted: let the hub finish that")
		}
	}
	return out
}

// readRecords returns the Secrets that are records of a hub.
func (m *Migration) readRecords(ctx context.Context) ([]*unstructured.Unstructured, error) {
	return m.hub.listIn(ctx, coreGVR("secrets"), m.cfg.Namespace, metav1.ListOptions{FieldSelector: "type=" + recordType})
}

func (c *cluster) ledgers(ctx context.Context) ([]*unstructured.Unstructured, error) {
	all, err := c.listIn(ctx, coreGVR("configmaps"), ledgerNamespace, metav1.ListOptions{})
	return slices.DeleteFunc(all, func(obj *unstructured.Unstructured) bool {
		_, is, _ := unstructured.NestedString(obj.Object, "data", ledgerKey)
		return !is
	}), err
}

func (m *Migration) saveGiveBack(b *backup, records []*unstructured.Unstructured, ledgers map[string][]*unstructured.Unstructured) error {
	for _, r := range records {
		b.add(onHub, r)
	}
	for name, all := range ledgers {
		for _, l := range all {
			b.add(name, l)
		}
	}
	if err := b.save(); err != nil {
		return err
	}
	m.done(m.hub, "%d objects are in %s", len(b.Objects), b.path)
	return nil
}

// unmarkMember removes the marks of the hub from the objects that it placed on a member, and then
// its ledgers. It removes the policies of a fence first, because they protect ledgers and marks.
func (m *Migration) unmarkMember(ctx context.Context, c *cluster, ledgers []*unstructured.Unstructured) error {
	fence, err := member.FenceManifests()
	if err != nil {
		return err
	}
	if err := m.removeAll(ctx, c, fence); err != nil {
		return err
	}
	if len(ledgers) == 0 {
		return nil
	}
	groups, err := restmapper.GetAPIGroupResources(c.kube.Discovery())
	if err != nil && len(groups) == 0 {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	for _, ledger := range ledgers {
		objects, err := ledgerObjects(ledger)
		if err != nil {
			return fmt.Errorf("%s: ledger %s: %w", c.name, ledger.GetName(), err)
		}
		for _, id := range objects {
			if err := m.unmark(ctx, c, mapper, id); err != nil {
				return err
			}
		}
		t := targetOf(coreGVR("configmaps"), ledger)
		removed, err := c.delete(ctx, t, metav1.DeletePropagationBackground)
		if err != nil {
			return err
		}
		if removed {
			m.done(c, "ledger %s is removed", ledger.GetName())
		}
	}
	return nil
}

// ledgerObjects returns the objects in a ledger.
func ledgerObjects(ledger *unstructured.Unstructured) ([]snapshot.ID, error) {
	text, _, _ := unstructured.NestedString(ledger.Object, "data", ledgerKey)
	var in struct{ Objects, Doubtful []snapshot.ID }
	if err := json.Unmarshal([]byte(text), &in); err != nil {
		return nil, err
	}
	return slices.Concat(in.Objects, in.Doubtful), nil
}

// unmark removes the marks of a hub from an object on a member.
func (m *Migration) unmark(ctx context.Context, c *cluster, mapper meta.RESTMapper, id snapshot.ID) error {
	mapping, err := mapper.RESTMapping(schema.GroupKind{Group: id.Group, Kind: id.Kind}, id.Version)
	if meta.IsNoMatchError(err) {
		return nil // the kind was deleted, with its objects
	}
	if err != nil {
		return fmt.Errorf("%s: %s: %w", c.name, id, err)
	}
	t := target{gvr: mapping.Resource, Key: api.Key{Namespace: id.Namespace, Name: id.Name}}
	changed, err := c.change(ctx, t, unmarked)
	if changed {
		m.done(c, "%s has no marks any more", t)
	}
	return err
}

// unmarked returns the changes that remove the marks of package fleet and its field managers from
// an object.
func unmarked(obj *metav1.PartialObjectMetadata) map[string]any {
	fields := map[string]any{}
	if marks := without(obj.Annotations, hasAnyPrefix("digest.slipway.dev/", "epoch.slipway.dev/")); marks != nil {
		fields["annotations"] = marks
	}
	if marks := without(obj.Labels, func(key string) bool { return key == "slipway.dev/applied" }); marks != nil {
		fields["labels"] = marks
	}
	withoutManagers(fields, obj, hasAnyPrefix("slipway/"))
	return fields
}

// removeAll deletes objects by their names in reverse order, so that bindings precede policies.
func (m *Migration) removeAll(ctx context.Context, c *cluster, all []*unstructured.Unstructured) error {
	for _, obj := range slices.Backward(all) {
		gvr, _ := meta.UnsafeGuessKindToResource(obj.GroupVersionKind())
		removed, err := c.deleteNamed(ctx, gvr, api.KeyOf(obj))
		if err != nil {
			return err
		}
		if removed {
			m.done(c, "%s is removed", nameOf(obj))
		}
	}
	return nil
}

// clearHub removes the hub's own objects from its cluster, the records last: as long as there are
// records, the give-back is not complete.
func (m *Migration) clearHub(ctx context.Context, s *survey, records []*unstructured.Unstructured) error {
	policies, err := manifests.Policies()
	if err != nil {
		return err
	}
	if err := m.removeAll(ctx, m.hub, policies); err != nil {
		return err
	}
	for _, gvr := range projected() {
		for _, obj := range s.projections[gvr] {
			if err := m.removeFromHub(ctx, targetOf(gvr, obj)); err != nil {
				return err
			}
		}
	}
	for _, gvr := range declared() {
		for _, obj := range s.declared[gvr] {
			t := targetOf(gvr, obj)
			changed, err := m.hub.change(ctx, t, disowned)
			if err != nil {
				return err
			}
			if changed {
				m.done(m.hub, "%s is released", t)
			}
		}
	}
	for _, r := range records {
		if _, err := m.hub.delete(ctx, targetOf(coreGVR("secrets"), r), metav1.DeletePropagationBackground); err != nil {
			return err
		}
	}
	if len(records) > 0 {
		m.done(m.hub, "%d records in %s are removed", len(records), m.cfg.Namespace)
	}
	_, err = m.hub.deleteNamed(ctx, leaseGVR(), api.Key{Namespace: m.cfg.Namespace, Name: api.Lease})
	return err
}

// disowned returns the changes of dropFinalizers, and removes the annotations that connect objects
// to the records of a hub. The annotations about the creator of a run stay.
func disowned(obj *metav1.PartialObjectMetadata) map[string]any {
	fields := dropFinalizers(obj)
	ours := []string{api.AnnotationRunUID, api.AnnotationSeal, api.AnnotationPolicies}
	if ties := without(obj.Annotations, func(key string) bool { return slices.Contains(ours, key) }); ties != nil {
		if fields == nil {
			fields = map[string]any{}
		}
		fields["annotations"] = ties
	}
	return fields
}

// readServing reads the Lease of a hub of package hub, nil if there is none.
func (m *Migration) readServing(ctx context.Context) (*Agent, error) {
	lease, err := m.hub.kube.CoordinationV1().Leases(m.cfg.Namespace).Get(ctx, api.Lease, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	a := leaseOf(onHub, lease, m.now())
	return &a, nil
}

// serving returns a text about the hub of package hub that leads, if there is one.
func (s *survey) serving() []string {
	if s.hub == nil || !s.hub.Running {
		return nil
	}
	return []string{fmt.Sprintf("%s, which is a hub of Slipway: stop it", s.hub)}
}
