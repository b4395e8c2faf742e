package manifests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/hub/compat"
)

// The outcomes of [Uninstall].
const (
	Deleted Outcome = "Deleted"
	// Listed: a dry run has found the object.
	Listed Outcome = "Listed"
)

// UninstallOptions are the options of [Uninstall].
type UninstallOptions struct {
	// DryRun deletes nothing: the outcome of each object is Listed.
	DryRun bool
	// Force also deletes the definitions while placements or applications exist. Their objects
	// stay on the members.
	Force bool
	// WhileLed also uninstalls while a hub leads the cluster.
	WhileLed bool
	// Found is called once, before the first deletion, also in a dry run. If it returns an error,
	// Uninstall deletes nothing and returns the error. May be nil.
	Found func(context.Context, Contents) error
	// Timeout is the limit for the duration of Uninstall without Found and without the wait for a
	// lease; 0 is one minute.
	Timeout time.Duration
	// Done is called after each object, never concurrently; may be nil.
	Done func(Change)
	// Note is called with a sentence if Uninstall waits for the lease of a hub; may be nil.
	Note func(string)
}

// Contents is what [Uninstall] deletes.
type Contents struct {
	// Installed is the number of objects that [Install] has created.
	Installed int
	// Namespaces are the names of the namespaces with the records of hubs.
	Namespaces []string
	// Objects are the numbers of objects of the Fleet API by kind, without kinds that have none.
	Objects []KindCount
}

// KindCount is the number of objects of a kind.
type KindCount struct {
	Kind  string
	Count int
}

// LedError reports that [Uninstall] was refused, because a hub leads the cluster.
type LedError struct {
	// Hub is the name of the hub that renews the lease.
	Hub string
}

func (e *LedError) Error() string {
	return "the hub " + e.Hub + " leads this cluster: stop it first"
}

// InUseError reports that [Uninstall] was refused, because placements or applications exist, or
// because the cluster is also a member and has ledgers of placements.
type InUseError struct {
	// Objects are at most ten of these objects, each as KIND NAMESPACE/NAME, and Count is the
	// number of all of them. A ledger has the kind Ledger.
	Objects []string
	Count   int
}

func (e *InUseError) Error() string {
	text := strings.Join(e.Objects, ", ")
	if more := e.Count - len(e.Objects); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return "the hub is in use by " + text + ": delete the placements while a hub runs, so that it removes their objects and ledgers from the members"
}

// partOf selects the objects of [Install].
const partOf = "app.kubernetes.io/part-of=slipway"

// uninstalled returns the kinds of the objects of [Install], in the order of their deletion. The
// definitions are deleted before the rights of the hub, and the namespace with the records is last.
func uninstalled() []schema.GroupKind {
	const admission, rbac = "admissionregistration.k8s.io", "rbac.authorization.k8s.io"
	return []schema.GroupKind{
		{Group: admission, Kind: "ValidatingAdmissionPolicyBinding"},
		{Group: admission, Kind: mutatingPolicy + "Binding"},
		{Group: admission, Kind: "ValidatingAdmissionPolicy"},
		{Group: admission, Kind: mutatingPolicy},
		{Group: "apiextensions.k8s.io", Kind: definition},
		{Group: rbac, Kind: "ClusterRoleBinding"},
		{Group: rbac, Kind: "RoleBinding"},
		{Group: rbac, Kind: "ClusterRole"},
		{Group: rbac, Kind: "Role"},
		{Kind: "ServiceAccount"},
		{Kind: "Namespace"},
	}
}

const definition = "CustomResourceDefinition"

// keepsHub reports whether objects of a kind keep [Uninstall] from deleting its definition.
func keepsHub(kind string) bool {
	return kind == "ClusterResourcePlacement" || kind == "ResourcePlacement" || kind == "Application"
}

// Uninstall deletes the objects that [Install] created on the API server of cfg. It finds them by
// their kind and the label app.kubernetes.io/part-of=slipway. When the definitions are deleted, the
// API server deletes all objects of the Fleet API, and with the namespace it deletes the records of
// the hub. Members are not changed: delete the placements first, while a hub runs, so that it
// removes their objects there. Uninstall returns an [InUseError] while placements or applications
// exist, unless it is forced, and while the namespace has ledgers, because then the cluster is also
// a member, and an engine would write to it without them.
//
// Uninstall returns a [LedError] if a hub renews its lease, unless WhileLed is set. If a hub was
// killed, Uninstall waits for the end of its lease. It checks both again after Found. Objects that
// wait for the cleanup by a hub are deleted without it. Uninstall returns once the definitions are
// gone; the namespace may take longer. It may be called again, for example after an error. The
// caller needs the rights of cluster-admin.
func Uninstall(ctx context.Context, cfg *rest.Config, o UninstallOptions) error {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	in, err := newInstaller(cfg, o.Done)
	if err == nil {
		err = in.uninstall(ctx, o)
	}
	if err != nil {
		return fmt.Errorf("manifests: uninstall: %w", err)
	}
	return nil
}

func (in *installer) uninstall(ctx context.Context, o UninstallOptions) error {
	all, contents, err := in.find(ctx, o)
	var held map[string]heldLease
	if err == nil && !o.DryRun && !o.WhileLed {
		held, err = in.checkUnled(ctx, o.Note) // may take as long as a lease
	}
	if err != nil {
		return err
	}
	if o.Found != nil && len(all) > 0 {
		if err := o.Found(ctx, contents); err != nil {
			return err
		}
		if err := in.checkAgain(ctx, all, held, o); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	for i := range all {
		u, outcome := &all[i], Listed
		if !o.DryRun {
			outcome = Deleted
			if err := in.delete(ctx, u); err != nil {
				return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
			}
		}
		in.done(Change{Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName(), Outcome: outcome})
	}
	return nil
}

// find returns the objects to delete, and describes them. The error says why they must not be
// deleted.
func (in *installer) find(ctx context.Context, o UninstallOptions) (all []unstructured.Unstructured, c Contents, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	for _, kind := range uninstalled() {
		found, err := in.installed(ctx, kind)
		if err != nil {
			return nil, c, fmt.Errorf("%s: %w", kind.Kind, err)
		}
		all = append(all, found...)
	}
	if !o.DryRun && !o.Force {
		if err := in.checkUnused(ctx, all); err != nil {
			return nil, c, err
		}
	}
	c.Installed = len(all)
	for i := range all {
		switch u := &all[i]; u.GetKind() {
		case "Namespace":
			c.Namespaces = append(c.Namespaces, u.GetName())
		case definition:
			kind, _, _ := unstructured.NestedString(u.Object, "spec", "names", "kind")
			n, err := in.count(ctx, u)
			if err != nil {
				return nil, c, fmt.Errorf("%s: %w", kind, err)
			}
			if n > 0 {
				c.Objects = append(c.Objects, KindCount{kind, n})
			}
		}
	}
	return all, c, nil
}

// checkAgain repeats the checks after the caller was asked, which may take as long as a person
// likes. It waits for no lease: a hub leads if a lease has changed since held was read.
func (in *installer) checkAgain(ctx context.Context, all []unstructured.Unstructured, held map[string]heldLease, o UninstallOptions) error {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if !o.DryRun && !o.Force {
		if err := in.checkUnused(ctx, all); err != nil {
			return err
		}
	}
	if o.DryRun || o.WhileLed {
		return nil
	}
	now, err := in.heldLeases(ctx)
	if err != nil {
		return err
	}
	for namespace, lease := range now {
		if lease != held[namespace] {
			return &LedError{Hub: lease.holder}
		}
	}
	return nil
}

// checkUnled returns a [LedError] if a hub leads, and otherwise the leases that are still held. The
// namespace of a lease need not be one that an installation has created.
func (in *installer) checkUnled(ctx context.Context, note func(string)) (map[string]heldLease, error) {
	held, err := in.heldLeases(ctx)
	if err != nil {
		return nil, err
	}
	for namespace := range held {
		hub, err := in.leader(ctx, namespace, note)
		switch {
		case err != nil:
			return nil, fmt.Errorf("lease of the hub: %w", err)
		case hub != "":
			return nil, &LedError{Hub: hub}
		}
	}
	return held, nil
}

// heldLease is a lease of a hub that has a holder.
type heldLease struct{ holder, renewed string }

// heldLeases returns the leases of hubs that have a holder, by their namespace.
func (in *installer) heldLeases(ctx context.Context) (map[string]heldLease, error) {
	leases, err := in.client.Resource(coordinationv1.SchemeGroupVersion.WithResource("leases")).List(ctx, metav1.ListOptions{LabelSelector: compat.Label})
	if err != nil {
		return nil, fmt.Errorf("leases of hubs: %w", err)
	}
	held := map[string]heldLease{}
	for i := range leases.Items {
		u := &leases.Items[i]
		holder, _, _ := unstructured.NestedString(u.Object, "spec", "holderIdentity")
		renewed, _, _ := unstructured.NestedString(u.Object, "spec", "renewTime")
		if u.GetName() == hubLease && holder != "" {
			held[u.GetNamespace()] = heldLease{holder, renewed}
		}
	}
	return held, nil
}

// count returns the number of objects of a definition.
func (in *installer) count(ctx context.Context, crd *unstructured.Unstructured) (int, error) {
	list, err := in.client.Resource(resourceOf(crd)).List(ctx, metav1.ListOptions{Limit: 1})
	if apierrors.IsNotFound(err) { // it is being deleted
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n := len(list.Items)
	if more := list.GetRemainingItemCount(); more != nil {
		n += int(*more)
	}
	return n, nil
}

// hubLease is the name of the Lease that elects the leader among hubs: Lease of hub/internal/api.
const hubLease = "slipway-hub"

// leader returns the name of the hub that leads, or "" if none does. A hub leads if it renews its
// lease before the lease ends, by the clock of this process alone. A hub that stops in order
// releases the lease.
func (in *installer) leader(ctx context.Context, namespace string, note func(string)) (string, error) {
	leases := in.client.Resource(coordinationv1.SchemeGroupVersion.WithResource("leases")).Namespace(namespace)
	read := func() (holder, renewed string, duration time.Duration, err error) {
		u, err := leases.Get(ctx, hubLease, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return "", "", 0, nil
		}
		if err != nil {
			return "", "", 0, err
		}
		holder, _, _ = unstructured.NestedString(u.Object, "spec", "holderIdentity")
		renewed, _, _ = unstructured.NestedString(u.Object, "spec", "renewTime")
		seconds, _, _ := unstructured.NestedInt64(u.Object, "spec", "leaseDurationSeconds")
		return holder, renewed, time.Duration(seconds) * time.Second, nil
	}
	begun := time.Now()
	first, before, duration, err := read()
	if err != nil || first == "" {
		return "", err
	}
	if note != nil {
		note(fmt.Sprintf("hub %s has the lease: if it does not renew it within %s, no hub leads", first, duration))
	}
	ctx, cancel := context.WithTimeout(ctx, duration+defaultTimeout)
	defer cancel()
	leads := ""
	err = poll(ctx, func(context.Context) error {
		holder, renewed, _, err := read()
		switch {
		case err != nil:
			return err
		case holder != "" && (renewed != before || holder != first):
			leads = holder
		case holder != "" && time.Since(begun) < duration:
			return errStillHeld
		}
		return nil
	})
	return leads, err
}

// errStillHeld reports that a lease has neither been renewed nor ended.
var errStillHeld = errors.New("the lease is held")

// installed returns the objects of a kind that an installation has created; none if the server
// does not have the kind.
func (in *installer) installed(ctx context.Context, kind schema.GroupKind) ([]unstructured.Unstructured, error) {
	m, err := in.mapper.RESTMapping(kind)
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := in.client.Resource(m.Resource).List(ctx, metav1.ListOptions{LabelSelector: partOf})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		list.Items[i].SetGroupVersionKind(m.GroupVersionKind)
	}
	return list.Items, nil
}

// checkUnused returns an InUseError if there are placements, applications or ledgers.
func (in *installer) checkUnused(ctx context.Context, all []unstructured.Unstructured) error {
	var e InUseError
	for i := range all {
		kind, objects, err := in.usersOf(ctx, &all[i])
		if err != nil {
			return err
		}
		for j := range objects {
			e.Count++
			if len(e.Objects) < 10 {
				e.Objects = append(e.Objects, kind+" "+strings.TrimPrefix(objects[j].GetNamespace()+"/"+objects[j].GetName(), "/"))
			}
		}
	}
	if e.Count > 0 {
		return &e
	}
	return nil
}

// usersOf returns the objects that keep an object from being deleted, and their kind: the objects
// of a definition, and the ledgers in a namespace.
func (in *installer) usersOf(ctx context.Context, u *unstructured.Unstructured) (kind string, users []unstructured.Unstructured, err error) {
	switch u.GetKind() {
	case definition:
		kind, _, _ = unstructured.NestedString(u.Object, "spec", "names", "kind")
		if keepsHub(kind) {
			users, err = in.objectsOf(ctx, u)
		}
		return kind, users, err
	case "Namespace":
		users, err = in.ledgersIn(ctx, u.GetName())
		return "Ledger", users, err
	}
	return "", nil, nil
}

// ledgersIn returns the ledgers that a hub keeps in a namespace of its members: they are ConfigMaps
// with the key ledger.
func (in *installer) ledgersIn(ctx context.Context, namespace string) ([]unstructured.Unstructured, error) {
	list, err := in.client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(u unstructured.Unstructured) bool {
		_, is, _ := unstructured.NestedString(u.Object, "data", "ledger")
		return !is
	}), nil
}

// objectsOf returns all objects of a definition.
func (in *installer) objectsOf(ctx context.Context, crd *unstructured.Unstructured) ([]unstructured.Unstructured, error) {
	list, err := in.client.Resource(resourceOf(crd)).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) { // it is being deleted
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// resourceOf returns the resource of a definition in a served version.
func resourceOf(crd *unstructured.Unstructured) (gvr schema.GroupVersionResource) {
	gvr.Group, _, _ = unstructured.NestedString(crd.Object, "spec", "group")
	gvr.Resource, _, _ = unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		if m, is := v.(map[string]any); is && m["served"] == true {
			gvr.Version, _ = m["name"].(string)
		}
	}
	return gvr
}

// delete deletes an object. Of a definition it first releases all objects, because no hub is left
// to do so, and then waits until the definition is gone.
func (in *installer) delete(ctx context.Context, u *unstructured.Unstructured) error {
	r, err := in.resource(u)
	if err != nil {
		return err
	}
	isDefinition := u.GetKind() == definition
	if isDefinition {
		if err := in.release(ctx, u); err != nil {
			return err
		}
	}
	uid := u.GetUID()
	err = r.Delete(ctx, u.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if !isDefinition {
		return nil
	}
	return wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := r.Get(ctx, u.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}

// release removes the finalizers of all objects of a definition.
func (in *installer) release(ctx context.Context, crd *unstructured.Unstructured) error {
	objects, err := in.objectsOf(ctx, crd)
	if err != nil {
		return err
	}
	for i := range objects {
		u := &objects[i]
		if len(u.GetFinalizers()) == 0 {
			continue
		}
		_, err := in.client.Resource(resourceOf(crd)).Namespace(u.GetNamespace()).
			Patch(ctx, u.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{FieldManager: fieldManager})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return nil
}
