package manifests

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The names in the manifests of the hub, which [HubOptions] replace.
const (
	hubNamespace = "slipway-system"
	hubAccount   = "slipway-hub"
	sourceRole   = "slipway-hub-source"
	secretsRole  = "slipway-hub-source-secrets"
)

// HubOptions are the identity and the read rights of a hub.
type HubOptions struct {
	// Namespace is the namespace of the hub's state: Secrets and a Lease. The default is
	// slipway-system.
	Namespace string
	// User is the hub's user name for the API server, if the hub is not a service account. The
	// default is the service account slipway-hub in Namespace.
	User string
	// Secrets lets the hub read all Secrets of its cluster, so that placements can carry them.
	// Without it, the Rules of the engine must exclude Secrets, because a placement with the
	// content of a Namespace fails if it cannot read all of it. The hub always has access to the
	// Secrets in Namespace.
	Secrets bool
	// Applications lets the hub serve applications.
	Applications bool
	// Sources are the objects that placements can select, as rules that allow get, list and watch.
	// The default is the kinds of Kubernetes without Secrets; if [Install] installs the rules, it
	// adds the other kinds of the server at that time. For later kinds, create a ClusterRole with
	// the label [AggregateToHub]. No rule needs a subresource.
	Sources []rbacv1.PolicyRule
}

// Roles returns the ClusterRoles for people: slipway-approver, slipway-viewer, slipway-editor,
// slipway-cluster-viewer and slipway-cluster-editor. None is part of another role. The caller may
// change them.
func Roles() ([]*unstructured.Unstructured, error) { return loadFile("rbac/people.yaml") }

// aggregate adds roles to the built-in roles of namespaces: slipway-viewer to view, and so to edit
// and admin; slipway-editor to edit, and so to admin.
func aggregate(roles []*unstructured.Unstructured) {
	for _, u := range roles {
		to := map[string]string{"slipway-viewer": "view", "slipway-editor": "edit"}[u.GetName()]
		if to == "" {
			continue
		}
		labels := u.GetLabels()
		labels["rbac.authorization.k8s.io/aggregate-to-"+to] = "true"
		u.SetLabels(labels)
	}
}

// HubRBAC returns exactly the objects that a hub needs: its namespace, its roles, their bindings
// and, unless it has a User, its service account. The caller may change them.
func HubRBAC(o HubOptions) ([]*unstructured.Unstructured, error) {
	if err := o.problems().ToAggregate(); err != nil {
		return nil, fmt.Errorf("manifests: hub: %w", err)
	}
	all, err := loadFile("rbac/hub.yaml")
	if err != nil {
		return nil, err
	}
	secrets, err := loadFile("optional/hub-secrets.yaml")
	if err != nil {
		return nil, err
	}
	all = append(all, secrets...)
	if o.Applications {
		applications, err := loadFile("applications/rbac/hub.yaml")
		if err != nil {
			return nil, err
		}
		all = append(all, applications...)
	}
	var out []*unstructured.Unstructured
	for _, u := range all {
		if u.GetKind() == rbacv1.ServiceAccountKind && o.User != "" {
			continue
		}
		if err := o.adapt(u); err != nil {
			return nil, fmt.Errorf("manifests: hub: %s %s: %w", u.GetKind(), u.GetName(), err)
		}
		out = append(out, u)
	}
	return out, nil
}

func (o *HubOptions) problems() field.ErrorList {
	var errs field.ErrorList
	if o.Namespace != "" {
		for _, msg := range validation.IsDNS1123Label(o.Namespace) {
			errs = append(errs, field.Invalid(field.NewPath("namespace"), o.Namespace, msg))
		}
	}
	if strings.TrimSpace(o.User) != o.User {
		errs = append(errs, field.Invalid(field.NewPath("user"), o.User, "must have no space at an end"))
	}
	for i, r := range o.Sources {
		at := field.NewPath("sources").Index(i)
		if len(r.Resources) == 0 || len(r.Verbs) == 0 {
			errs = append(errs, field.Required(at, "a rule needs resources and verbs"))
		}
		if slices.Contains(r.Resources, "*") {
			errs = append(errs, field.Forbidden(at.Child("resources"), "* covers subresources too, such as nodes/proxy and pods/exec: list the resources"))
		}
	}
	return errs
}

// adapt replaces names in an object of the manifest by the names in the options.
func (o *HubOptions) adapt(u *unstructured.Unstructured) error {
	if o.Namespace != "" {
		if u.GetNamespace() != "" {
			u.SetNamespace(o.Namespace)
		}
		if u.GetKind() == "Namespace" {
			u.SetName(o.Namespace)
		}
	}
	if u.GetName() == secretsRole && u.GetKind() == "ClusterRoleBinding" && !o.Secrets {
		// Install the binding without subjects, because an earlier installation may have bound
		// one.
		unstructured.RemoveNestedField(u.Object, "subjects")
		return nil
	}
	if _, ok := u.Object["subjects"]; ok {
		return unstructured.SetNestedSlice(u.Object, []any{o.subject()}, "subjects")
	}
	if u.GetName() == sourceRole && u.GetKind() == "ClusterRole" && len(o.Sources) > 0 {
		return setRules(u, o.Sources)
	}
	return nil
}

func (o *HubOptions) subject() map[string]any {
	if o.User != "" {
		return map[string]any{"kind": rbacv1.UserKind, "name": o.User, "apiGroup": rbacv1.GroupName}
	}
	return map[string]any{"kind": rbacv1.ServiceAccountKind, "name": hubAccount, "namespace": o.namespace()}
}

// namespace returns the namespace of the hub.
func (o *HubOptions) namespace() string { return cmp.Or(o.Namespace, hubNamespace) }

// setRules sets the rules of a role.
func setRules(u *unstructured.Unstructured, rules []rbacv1.PolicyRule) error {
	role, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&rbacv1.ClusterRole{Rules: rules})
	if err != nil {
		return err
	}
	u.Object["rules"] = role["rules"]
	return nil
}
