package hub_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/snapshot"
)

const tenantUser = "tenant"

// TestANamespaceEditorGetsNoMoreOnMembers: a user with the roles slipway-viewer and slipway-editor
// in one namespace, and without a role that grants rights, tries every way from a namespace to a
// member: an envelope in a placement of the namespace, a selected object, and an override. Each is
// refused with a message that names the object, the field and the remedies. Permitted objects
// arrive.
func TestANamespaceEditorGetsNoMoreOnMembers(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 1)
	w.mayWarn("Forbidden: ") // about the editor's requests
	const user = "hub-of-tenants"
	m := w.members[0]
	w.grant(manifests.HubOptions{User: user, Namespace: w.config("").Namespace})
	w.createText(`{apiVersion: v1, kind: Namespace, metadata: {name: $NAME}}`)
	w.createOn(m.client, w.parse(`{apiVersion: v1, kind: Namespace, metadata: {name: $NAME}}`))
	c := w.tenant("slipway-viewer", "slipway-editor")
	w.start("hub", func(cfg *hub.Config) {
		cfg.Rest = w.server.ConfigFor(user)
		withoutSecrets(cfg)
	})

	// An envelope in a placement of the namespace.
	w.createOn(c, w.parse(envelope("$NAME", grantOf("grant"), configMapOf("fine"))))
	w.createOn(c, w.parse(placementOf("enveloped", "placement.kubernetes-fleet.io", "v1beta1", "ResourceEnvelope", "envelope")))
	w.refusedBefore(m, "rp", w.name, "enveloped", "ResourceEnvelope.v1beta1.placement.kubernetes-fleet.io $NAME/envelope",
		"data[grant.yaml]", "RoleBinding.v1.rbac.authorization.k8s.io $NAME/grant", "NamespaceRules", "have a ClusterResourcePlacement bring it")
	// Without the grant, the other objects of the envelope arrive.
	w.patchAs(c, "re", "envelope", `{"data":{"grant.yaml":null}}`)
	w.eventually("what the user may bring", func() error {
		_, err := w.on(m.client, "cm", w.name).Get(t.Context(), "fine", metav1.GetOptions{})
		return err
	})
	// A selected object.
	w.createOn(c, w.parse(placementOf("selected", "rbac.authorization.k8s.io", "v1", "RoleBinding", tenantUser+"-slipway-editor")))
	w.refusedBefore(m, "rp", w.name, "selected", "selectors[0].kind", "RoleBinding", "ClusterResourcePlacement", "NamespaceRules")
	// An override of the namespace on a placement of an administrator.
	w.placeNamespace()
	w.bind("admins", "cluster-admin", "root")
	w.eventually("the binding of the administrator on the member", func() error { return w.bound(m, "admins", "root") })
	w.createOn(c, w.parse(overrideOf("rbac.authorization.k8s.io", "v1", "RoleBinding", "admins", "/subjects/0/name", tenantUser)))
	w.refusedBefore(m, "crp", "", w.name, "override $NAME/override", "resourceSelectors[0]", "RoleBinding", "NamespaceRules")
	if err := w.bound(m, "admins", "root"); err != nil {
		t.Error(err)
	}
	if err := w.powerless(m); err != nil {
		t.Error(err)
	}
}

// TestClusterPlacementMayPlaceAnyEnvelopeContent: the rights of the placement's author
// count. So a ClusterResourcePlacement brings quotas and roles that a placement of the namespace
// may not bring.
func TestClusterPlacementMayPlaceAnyEnvelopeContent(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 1)
	m := w.members[0]
	w.createText(`{apiVersion: v1, kind: Namespace, metadata: {name: $NAME}}`)
	w.start("hub")
	w.createText(envelope("$NAME", grantOf("grant"), `quota.yaml: {apiVersion: v1, kind: ResourceQuota, metadata: {name: quota, namespace: $NAME}, spec: {hard: {pods: "10"}}}`))
	w.createText(placementOf("enveloped", "placement.kubernetes-fleet.io", "v1beta1", "ResourceEnvelope", "envelope"))
	w.refusedBefore(m, "rp", w.name, "enveloped", "data[grant.yaml]", "data[quota.yaml]", "ResourceQuota.v1 $NAME/quota is of a kind", "NamespaceRules")
	w.placeNamespace()
	w.eventually("the roles and quotas of the envelope", func() error {
		quota := schema.GroupVersionResource{Version: "v1", Resource: "resourcequotas"}
		_, err := m.client.Resource(quota).Namespace(w.name).Get(t.Context(), "quota", metav1.GetOptions{})
		return errors.Join(err, w.bound(m, "grant", tenantUser))
	})
	w.await("crp", w.name, "ClusterResourcePlacementAvailable", "True")
}

// TestHostForbidsSecretsInEnvelopes: a host that wants no Secrets in envelopes,
// because readers of envelopes would see them, forbids them with its rules for namespaces. The
// message does not contain the content of the Secret.
func TestHostForbidsSecretsInEnvelopes(t *testing.T) {
	w := newHubEnv(t, 1)
	w.createText(`{apiVersion: v1, kind: Namespace, metadata: {name: $NAME}}`)
	rules := snapshot.NamespaceRules()
	rules.Never = append(rules.Never, snapshot.GroupKind{Kind: "Secret"})
	w.start("hub", func(cfg *hub.Config) { cfg.Engine.NamespaceRules = &rules })
	w.createText(envelope("$NAME", configMapOf("fine"),
		`s.yaml: {apiVersion: v1, kind: Secret, metadata: {name: s, namespace: $NAME}, stringData: {password: hunter2-hunter2}}`))
	w.createOn(w.members[0].client, w.parse(`{apiVersion: v1, kind: Namespace, metadata: {name: $NAME}}`))
	w.createText(placementOf("enveloped", "placement.kubernetes-fleet.io", "v1beta1", "ResourceEnvelope", "envelope"))
	w.refusedBefore(w.members[0], "rp", w.name, "enveloped", "$NAME/envelope: data[s.yaml]: Forbidden: Secret.v1 $NAME/s", "NamespaceRules")
	obj, err := w.on(w.client, "rp", w.name).Get(t.Context(), "enveloped", metav1.GetOptions{})
	if text, problem := obj.MarshalJSON(); err != nil || problem != nil || strings.Contains(string(text), "hunter2") {
		t.Errorf("the placement tells what is in the Secret: %v, %v", err, problem)
	}
	w.patchAs(w.client, "re", "envelope", `{"data":{"s.yaml":null}}`)
	w.eventually("what else is in the envelope", func() error {
		_, err := w.on(w.members[0].client, "cm", w.name).Get(t.Context(), "fine", metav1.GetOptions{})
		return err
	})
}

// TestAKindThatTheHubMayNotReadIsNamed: a hub with exactly the rights of its manifests, which
// exclude Secrets, rolls out a namespace without them. A kind that it may not read delays the next
// snapshot, with a message that names the kind and the remedies, and removes nothing from members.
// Once the right is granted, the hub continues.
func TestAKindThatTheHubMayNotReadIsNamed(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 1)
	const user = "hub-of-kinds"
	m := w.members[0]
	w.grant(manifests.HubOptions{User: user, Namespace: w.config("").Namespace})
	w.mayNot(user, "list", "", "secrets", w.name)
	w.start("hub", func(cfg *hub.Config) {
		cfg.Rest = w.server.ConfigFor(user)
		withoutSecrets(cfg)
	})
	w.createText(`{apiVersion: v1, kind: Namespace, metadata: {name: $NAME}}`)
	w.createText(`{apiVersion: v1, kind: ConfigMap, metadata: {name: cm, namespace: $NAME}, data: {key: v1}}`)
	w.createText(`{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: $NAME}, stringData: {key: v1}}`)
	w.placeNamespace()
	w.eventually("what the hub may read", func() error { return w.holds(m, "v1") })
	if list, err := w.on(m.client, "secret", w.name).List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("the member has %d Secrets: %v", len(list.Items), err)
	}
	w.eventually("the placement to say that Secrets are left out", func() error {
		u, err := w.at("crp").Get(t.Context(), w.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if text, err := u.MarshalJSON(); err != nil || !strings.Contains(string(text), "every Secret is left out") {
			return fmt.Errorf("its status does not name Secrets: %v", err)
		}
		return nil
	})
	w.defineWidgets()
	tries := 0
	w.eventually("the placement to name the kind", func() error {
		if tries++; tries%50 == 1 { // a snapshot from before the kind was listed has none of its objects
			w.change(fmt.Sprint("change-", tries))
		}
		u, err := w.at("crp").Get(t.Context(), w.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		status, said := conditionOf(u, "ClusterResourcePlacementScheduled")
		for _, word := range []string{"Widget", w.name + ".example.com", user, "grant this user get, list and watch", "exclude the kind by Rules.Never"} {
			if status != "False" || !strings.Contains(said, word) {
				return fmt.Errorf("it is %q (%s), want False with %q", status, said, word)
			}
		}
		return nil
	})
	if _, err := w.on(m.client, "cm", w.name).Get(t.Context(), "cm", metav1.GetOptions{}); err != nil {
		t.Errorf("what the member had: %v", err)
	}
	w.change("v3")
	w.grantKind(user, w.name+".example.com", "widgets")
	w.eventually("the rollout to go on", func() error { return w.holds(m, "v3") })
	w.await("crp", w.name, "ClusterResourcePlacementScheduled", "True")
}

// grantKind lets a user read a kind.
func (w *hubEnv) grantKind(user, group, resource string) {
	w.t.Helper()
	name := w.name + "-" + resource
	_, err := w.kube.RbacV1().ClusterRoles().Create(w.t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"get", "list", "watch"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = w.kube.RbacV1().ClusterRoleBindings().Create(w.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

// tenant gives the user roles in the namespace with the environment's name, and returns a client of
// the user.
func (w *hubEnv) tenant(roles ...string) dynamic.Interface {
	w.t.Helper()
	for _, role := range roles {
		w.bind(tenantUser+"-"+role, role, tenantUser)
	}
	c, _ := clientsFor(w.t, w.server.ConfigFor(tenantUser))
	return c
}

// bind gives a user a role in the namespace with the environment's name.
func (w *hubEnv) bind(name, role, user string) {
	w.t.Helper()
	_, err := w.kube.RbacV1().RoleBindings(w.name).Create(w.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

// envelope returns the text of an envelope with the entries.
func envelope(namespace string, entries ...string) string {
	return `{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: ResourceEnvelope, metadata: {name: envelope, namespace: ` + namespace + `}, data: {` +
		strings.Join(entries, ", ") + `}}`
}

func configMapOf(name string) string {
	return name + `.yaml: {apiVersion: v1, kind: ConfigMap, metadata: {name: ` + name + `, namespace: $NAME}, data: {key: v1}}`
}

// grantOf makes the tenant an administrator of the namespace.
func grantOf(name string) string {
	return name + `.yaml: {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: ` + name + `, namespace: $NAME},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ` + tenantUser + `}]}`
}

// placementOf returns a placement of the namespace that selects one object.
func placementOf(name, group, version, kind, object string) string {
	return `{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: ResourcePlacement, metadata: {name: ` + name + `, namespace: $NAME},
  spec: {resourceSelectors: [{group: "` + group + `", version: ` + version + `, kind: ` + kind + `, name: ` + object + `}], strategy: {type: RollingUpdate}}}`
}

func overrideOf(group, version, kind, object, path, value string) string {
	return `{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: ResourceOverride, metadata: {name: override, namespace: $NAME},
  spec: {placement: {name: $NAME}, resourceSelectors: [{group: "` + group + `", version: ` + version + `, kind: ` + kind + `, name: ` + object + `}],
  policy: {overrideRules: [{clusterSelector: {clusterSelectorTerms: []}, overrideType: JSONPatch, jsonPatchOverrides: [{op: replace, path: ` + path + `, value: ` + value + `}]}]}}}`
}

// placeNamespace creates the administrator's placement, which rolls out the namespace
// automatically.
func (w *hubEnv) placeNamespace() {
	w.t.Helper()
	w.createText(`{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: ClusterResourcePlacement, metadata: {name: $NAME},
  spec: {resourceSelectors: [{group: "", version: v1, kind: Namespace, name: $NAME}], strategy: {type: RollingUpdate, applyStrategy: {allowCoOwnership: true}}}}`)
}

// refusedBefore waits until the status of a placement contains all of the words. It fails
// immediately if the tenant has gained a right on the member.
func (w *hubEnv) refusedBefore(m *member, short, namespace, name string, words ...string) {
	w.t.Helper()
	w.eventually(name+" to be refused", func() error {
		if err := w.powerless(m); err != nil {
			w.t.Fatal(err)
		}
		u, err := w.on(w.client, short, namespace).Get(w.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		status, said := conditionOf(u, u.GetKind()+"Scheduled")
		for _, word := range words {
			if word = strings.ReplaceAll(word, "$NAME", w.name); status != "False" || !strings.Contains(said, word) {
				return fmt.Errorf("it is %q (%s), want False with %q", status, said, word)
			}
		}
		return nil
	})
}

// powerless returns an error if the tenant has a right on a member that was not granted there.
func (w *hubEnv) powerless(m *member) error {
	_, k := clientsFor(w.t, m.server.Config())
	for _, a := range []authorizationv1.ResourceAttributes{
		{Verb: "list", Resource: "secrets"}, {Verb: "create", Group: rbacv1.GroupName, Resource: "rolebindings"}, {Verb: "create", Resource: "configmaps"},
	} {
		a.Namespace = w.name
		review, err := k.AuthorizationV1().SubjectAccessReviews().Create(context.WithoutCancel(w.t.Context()),
			&authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: tenantUser, ResourceAttributes: &a}}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		if review.Status.Allowed {
			return fmt.Errorf("on %s the tenant may %s %s: %s", m.name, a.Verb, a.Resource, review.Status.Reason)
		}
	}
	return nil
}

// bound returns an error unless a RoleBinding of a member is for a user.
func (w *hubEnv) bound(m *member, name, user string) error {
	_, k := clientsFor(w.t, m.server.Config())
	b, err := k.RbacV1().RoleBindings(w.name).Get(w.t.Context(), name, metav1.GetOptions{})
	if err == nil && (len(b.Subjects) != 1 || b.Subjects[0].Name != user) {
		err = fmt.Errorf("it is for %v, want %s", b.Subjects, user)
	}
	return err
}

// patchAs changes an object of the namespace with a client.
func (w *hubEnv) patchAs(c dynamic.Interface, short, name, patch string) *unstructured.Unstructured {
	w.t.Helper()
	u, err := w.on(c, short, w.name).Patch(w.t.Context(), name, mergePatch, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return u
}

// withoutSecrets is for hubs that may not read Secrets.
func withoutSecrets(cfg *hub.Config) {
	cfg.Engine.Rules.Never = append(cfg.Engine.Rules.Never, snapshot.GroupKind{Kind: "Secret"})
}
