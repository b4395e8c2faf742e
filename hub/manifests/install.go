package manifests

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/util/retry"

	"github.com/slipway-dev/slipway/hub/compat"
)

// fieldManager is the owner of the fields that Install writes.
const fieldManager = "slipway-install"

// defaultTimeout is much longer than an API server needs to serve new kinds.
const defaultTimeout = time.Minute

// Options are the options of [Install]. CRDs, policies and the roles of people are always
// installed.
type Options struct {
	// Compatibility is the setting of the hub. If it is empty, the definitions on the server must
	// have the default setting, or there must be none: only an explicit setting changes the setting
	// of a server.
	Compatibility compat.Setting
	// Hub installs the objects of [HubRBAC]; nil installs none.
	Hub *HubOptions
	// Applications installs the definitions of the application workflow and the role
	// slipway-application-editor, and lets the Hub serve applications.
	Applications bool
	// Aggregate makes the role slipway-viewer part of the built-in view, and slipway-editor part of
	// edit, and so both part of admin: people with edit in a namespace may then roll out from it.
	// Without Aggregate you must bind the roles, and Install ends an earlier aggregation.
	Aggregate bool
	// DryRun asks the API server what Install would do, and changes nothing.
	DryRun bool
	// Timeout is the limit for the duration of Install; 0 is one minute.
	Timeout time.Duration
	// Done is called after each object, never concurrently; may be nil.
	Done func(Change)
	// Note is called with sentences about the effect of a changed Compatibility on existing
	// objects, and if Install waits for the end of an uninstallation; may be nil.
	Note func(string)
}

// Outcome is the result of applying an object.
type Outcome string

// The outcomes of [Install].
const (
	Created   Outcome = "Created"
	Updated   Outcome = "Updated"
	Unchanged Outcome = "Unchanged"
	// Skipped: the API server does not have the kind. Only mutating policies may be skipped.
	Skipped Outcome = "Skipped"
)

// Change is the result of applying one object.
type Change struct {
	Kind      string
	Namespace string
	Name      string
	Outcome   Outcome
}

// String returns a line in the style of kubectl.
func (c Change) String() string {
	if c.Namespace != "" {
		return fmt.Sprintf("%s %s/%s %s", c.Kind, c.Namespace, c.Name, c.Outcome)
	}
	return fmt.Sprintf("%s %s %s", c.Kind, c.Name, c.Outcome)
}

// Install prepares the API server of cfg for package hub. It applies the CRDs, the policies, the
// roles of people and, if requested, the roles of the hub. It returns once all versions of all
// kinds are served and the policies are in effect.
//
// It may be called again at any time, concurrently, and by a newer version of this package. It
// updates objects that differ, from any author, and keeps additions of others, except in policies:
// policies get exactly the spec in this package. If the server has no MutatingAdmissionPolicy of
// version v1, Install skips the mutating policies; the package documentation describes the
// consequences. It neither changes nor keeps cfg. The caller needs the rights of cluster-admin,
// because installing a role requires the rights in it, and an aggregated role may contain any
// right.
func Install(ctx context.Context, cfg *rest.Config, o Options) error {
	timeout := o.Timeout
	if timeout == 0 {
		timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	in, err := newInstaller(cfg, o.Done)
	if err == nil {
		in.dry = o.DryRun
		err = in.install(ctx, o)
	}
	if err != nil {
		return fmt.Errorf("manifests: install: %w", err)
	}
	return nil
}

// installer applies objects.
type installer struct {
	client dynamic.Interface
	mapper meta.RESTMapper
	disco  discovery.DiscoveryInterface
	done   func(Change)
	// mutates reports whether the server accepted a mutating policy.
	mutates bool
	// dry reports whether all writes are dry runs.
	dry bool
}

// Export returns the objects that [Install] applies, in the order of their application, for tools
// that apply files. It connects to no API server. Therefore it lacks the role for the kinds that
// Install discovers on the server: name the kinds that placements select in HubOptions.Sources, or
// label their roles with [AggregateToHub]. The definitions of [Install] that may belong to another
// author, Works and ManagedClusters, are part of the result.
func Export(o Options) ([]*unstructured.Unstructured, error) {
	all, err := definitionsFor(o, o.Compatibility.OrDefault())
	for _, file := range definedOnce(o) {
		once, read := loadFile(file)
		all, err = append(all, once...), errors.Join(err, read)
	}
	others, read := besides(o)
	if err := errors.Join(err, read); err != nil {
		return nil, fmt.Errorf("manifests: export: %w", err)
	}
	return append(all, others...), nil
}

// definitionsFor returns the CRDs to install.
func definitionsFor(o Options, setting compat.Setting) ([]*unstructured.Unstructured, error) {
	crds, err := CRDs(setting)
	if err != nil || !o.Applications {
		return crds, err
	}
	applications, err := Applications()
	return append(crds, applications...), err
}

func newInstaller(cfg *rest.Config, done func(Change)) (*installer, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1 // some tens of requests, one after the other
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	disco, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, err
	}
	groups, err := restmapper.GetAPIGroupResources(disco)
	if err != nil && len(groups) == 0 {
		return nil, err
	}
	if done == nil {
		done = func(Change) {}
	}
	return &installer{client: client, mapper: restmapper.NewDiscoveryRESTMapper(groups), disco: disco, done: done}, nil
}

// install applies everything in the necessary order.
func (in *installer) install(ctx context.Context, o Options) error {
	change, err := in.settingChange(ctx, o.Compatibility)
	if err != nil {
		return err
	}
	crds, err := definitionsFor(o, change.to)
	if err != nil {
		return err
	}
	others, err := besides(o)
	if err != nil {
		return err
	}
	if !in.dry {
		if err := in.awaitNamespace(ctx, o); err != nil {
			return err
		}
	}
	if err := in.carryOver(ctx, change, o.Note); err != nil {
		return err
	}
	if err := in.applyAll(ctx, crds); err != nil {
		return err
	}
	if !in.dry {
		if err := in.awaitServed(ctx, crds); err != nil {
			return err
		}
	}
	for _, file := range definedOnce(o) {
		if err := in.defineOnce(ctx, file); err != nil {
			return err
		}
	}
	if o.Hub != nil {
		role, err := in.discovered(o.Hub, others)
		if err != nil {
			return err
		}
		others = append(others, role)
	}
	if err := in.applyAll(ctx, others); err != nil || in.dry {
		return err
	}
	return in.awaitPolicies(ctx)
}

// besides returns the objects to apply once the kinds are served.
func besides(o Options) ([]*unstructured.Unstructured, error) {
	all, err := Policies()
	if err != nil {
		return nil, err
	}
	roles, err := Roles()
	if o.Aggregate {
		aggregate(roles)
	}
	if err != nil {
		return nil, err
	}
	all = append(all, roles...)
	if o.Applications {
		editor, err := loadFile("applications/rbac/people.yaml")
		if err != nil {
			return nil, err
		}
		all = append(all, editor...)
	}
	if o.Hub == nil {
		return all, nil
	}
	hub := *o.Hub
	hub.Applications = hub.Applications || o.Applications
	own, err := HubRBAC(hub)
	return append(all, own...), err
}

func (in *installer) applyAll(ctx context.Context, all []*unstructured.Unstructured) error {
	for _, u := range all {
		outcome, err := in.apply(ctx, u)
		if err != nil {
			return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
		}
		in.mutates = in.mutates || u.GetKind() == mutatingPolicy && outcome != Skipped
		in.done(Change{Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName(), Outcome: outcome})
	}
	return nil
}

// apply creates or updates an object, and returns the outcome.
func (in *installer) apply(ctx context.Context, u *unstructured.Unstructured) (Outcome, error) {
	r, err := in.resource(u)
	if meta.IsNoMatchError(err) && optional(u) {
		return Skipped, nil
	}
	if err != nil {
		return "", err
	}
	before, err := r.Get(ctx, u.GetName(), metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return "", err
	}
	var after *unstructured.Unstructured
	if before != nil && isPolicy(u) {
		after, err = in.replace(ctx, r, u)
	} else {
		after, err = r.Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: fieldManager, Force: true, DryRun: in.dryRuns()})
	}
	if in.dry && before == nil && apierrors.IsNotFound(err) { // its namespace is not there yet either
		return Created, nil
	}
	if err != nil {
		return "", err
	}
	return outcomeOf(before, after), nil
}

// dryRuns returns the option DryRun of a write.
func (in *installer) dryRuns() []string {
	if in.dry {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// definedOnce returns the files with definitions that another author may have installed before, in
// any version: KubeFleet's agents need their Works while a hub is migrated, and Open Cluster
// Management needs its ManagedClusters.
func definedOnce(o Options) []string {
	files := []string{"optional/works.yaml"}
	if o.Applications {
		files = append(files, "optional/managedclusters.yaml")
	}
	return files
}

// defineOnce installs a definition if the server has none of its name.
func (in *installer) defineOnce(ctx context.Context, file string) error {
	all, err := loadFile(file)
	if err != nil {
		return err
	}
	r, err := in.resource(all[0])
	if err != nil {
		return err
	}
	switch _, err := r.Get(ctx, all[0].GetName(), metav1.GetOptions{}); {
	case err == nil:
		in.done(Change{Kind: all[0].GetKind(), Name: all[0].GetName(), Outcome: Unchanged})
		return nil
	case !apierrors.IsNotFound(err):
		return err
	}
	if err := in.applyAll(ctx, all); err != nil || in.dry {
		return err
	}
	return in.awaitServed(ctx, all)
}

// isPolicy reports whether an object is an admission policy or the binding of one.
func isPolicy(u *unstructured.Unstructured) bool {
	return strings.HasSuffix(strings.TrimSuffix(u.GetKind(), "Binding"), "AdmissionPolicy")
}

// replace gives an existing policy or binding exactly the spec of u. Server-side apply would keep
// additions of others, such as a condition that disables the policy.
func (in *installer) replace(ctx context.Context, r dynamic.ResourceInterface, u *unstructured.Unstructured) (after *unstructured.Unstructured, err error) {
	// RetryOnConflict returns no error if the context ends while it waits, so the error of the last
	// attempt counts.
	_ = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		var now *unstructured.Unstructured
		if now, err = r.Get(ctx, u.GetName(), metav1.GetOptions{}); err != nil {
			return err
		}
		now.Object["spec"] = u.DeepCopy().Object["spec"]
		labels := now.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		maps.Copy(labels, u.GetLabels())
		now.SetLabels(labels)
		after, err = r.Update(ctx, now, metav1.UpdateOptions{FieldManager: fieldManager, DryRun: in.dryRuns()})
		return err
	})
	return after, err
}

func outcomeOf(before, after *unstructured.Unstructured) Outcome {
	switch {
	case before == nil || before.GetUID() != after.GetUID():
		return Created
	case sameContent(before, after):
		return Unchanged
	default:
		return Updated
	}
}

// sameContent reports whether two versions differ at most in the owners of fields.
func sameContent(before, after *unstructured.Unstructured) bool {
	a, b := before.DeepCopy(), after.DeepCopy()
	for _, u := range []*unstructured.Unstructured{a, b} {
		u.SetManagedFields(nil)
		u.SetResourceVersion("")
		u.SetGeneration(0)
	}
	return equality.Semantic.DeepEqual(a.Object, b.Object)
}

// mutatingPolicy is a kind that servers before 1.36 do not have.
const mutatingPolicy = "MutatingAdmissionPolicy"

// optional reports whether a hub works without the object.
func optional(u *unstructured.Unstructured) bool {
	return u.GetKind() == mutatingPolicy || u.GetKind() == mutatingPolicy+"Binding"
}

func (in *installer) resource(u *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	gvk := u.GroupVersionKind()
	m, err := in.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	if m.Scope.Name() == meta.RESTScopeNameNamespace {
		return in.client.Resource(m.Resource).Namespace(u.GetNamespace()), nil
	}
	return in.client.Resource(m.Resource), nil
}
