package manifests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/hub/compat"
	"github.com/slipway-dev/slipway/hub/internal/api"
)

// definitions is the resource of CustomResourceDefinitions.
func definitions() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
}

// ErrOtherCompatibility means that the definitions on a server are for another compatibility
// setting.
var ErrOtherCompatibility = errors.New("the definitions have another compatibility setting")

// CheckCompatibility returns an error with the remedy unless the definitions on a server are for
// the setting. The error matches [ErrOtherCompatibility] if they are for another setting, and is
// the API server's error if they cannot be read. Missing definitions are no error here.
func CheckCompatibility(ctx context.Context, client dynamic.Interface, setting compat.Setting) error {
	setting = setting.OrDefault()
	if _, err := compat.Parse(string(setting)); err != nil {
		return err
	}
	names, err := dependentDefinitions()
	if err != nil {
		return err
	}
	var wrong []string
	for _, name := range names {
		have, err := client.Resource(definitions()).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return fmt.Errorf("definition %s cannot be read: %w", name, err)
		}
		switch label := have.GetLabels()[compat.Label]; label {
		case string(setting):
		case "":
			wrong = append(wrong, name+" has no label "+compat.Label)
		default:
			wrong = append(wrong, name+" is installed for "+label)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%w: the setting is %s, but definition %s: start the hub with the setting of the definitions, or install those of %s (slipway hub install --compatibility %s)",
		ErrOtherCompatibility, setting, strings.Join(wrong, ", "), setting, setting)
}

// dependentDefinitions returns the names of the definitions that depend on the compatibility
// setting, which are the same for all settings. A hub needs them twice at its start, and must not
// keep the definitions, which are large.
var dependentDefinitions = sync.OnceValues(func() ([]string, error) { //nolint:gochecknoglobals // a cache of embedded data, which never changes
	all, err := each("crds", readFile) // of the default setting
	var names []string
	for _, crd := range all {
		if crd.GetLabels()[compat.Label] != "" {
			names = append(names, crd.GetName())
		}
	}
	return names, err
})

// settingChange is the effect of an installation on the compatibility setting of a server.
type settingChange struct {
	// from is the setting of the installed definitions if it differs from to; "" if it does not, if
	// there are no definitions or if they are from another author.
	from, to compat.Setting
	// runs are the installed kinds of runs, with the state that a run without spec.state has until
	// now.
	runs []runKind
}

// runKind is a kind of runs on a server.
type runKind struct {
	kind     string
	resource schema.GroupVersionResource
	state    v1beta1.State
}

// settingChange reads the definitions on the server. It returns an error if their setting would
// change and no setting was named.
func (in *installer) settingChange(ctx context.Context, named compat.Setting) (settingChange, error) {
	change := settingChange{to: named.OrDefault()}
	if _, err := compat.Parse(string(named)); err != nil {
		return change, err
	}
	for _, r := range []runKind{{kind: "ClusterStagedUpdateRun"}, {kind: "StagedUpdateRun"}} {
		r.resource = schema.GroupVersionResource{Group: v1beta1.GroupName, Version: v1beta1.Version, Resource: strings.ToLower(r.kind) + "s"}
		crd, err := in.client.Resource(definitions()).Get(ctx, r.resource.GroupResource().String(), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return change, fmt.Errorf("CustomResourceDefinition %s: %w", r.resource.GroupResource(), err)
		}
		if r.state = stateDefault(crd, r.resource.Version); r.state == "" {
			continue // it does not define the version read here
		}
		if label := crd.GetLabels()[compat.Label]; label != "" && label != string(change.to) {
			change.from = compat.Setting(label)
		}
		change.runs = append(change.runs, r)
	}
	if named == "" && change.from != "" {
		return change, fmt.Errorf("the definitions on the server have the compatibility %s: name that setting to keep them, or %s to replace them", change.from, change.to)
	}
	return change, nil
}

// stateDefault returns the state that a definition gives to runs without spec.state; "" if it does
// not serve the version.
func stateDefault(crd *unstructured.Unstructured, version string) v1beta1.State {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		v, _ := v.(map[string]any)
		if v["name"] != version || v["served"] != true {
			continue
		}
		state, _, _ := unstructured.NestedString(v, "schema", "openAPIV3Schema", "properties", "spec", "properties", "state", "default")
		if state == "" {
			return v1beta1.StateRun
		}
		return v1beta1.State(state)
	}
	return ""
}

// carryOver writes into runs without spec.state the state that the old definitions give them, so
// that the new definitions neither start a run nor change the state Run of a run under way. It
// sends notes about the effect of the new setting on existing objects.
func (in *installer) carryOver(ctx context.Context, change settingChange, note func(string)) error {
	if note == nil {
		note = func(string) {}
	}
	if change.from != "" {
		note(fmt.Sprintf("the definitions change from compatibility %s to %s: start hubs with %s, because those with %s refuse to start", change.from, change.to, change.to, change.from))
		if err := in.noteObjects(ctx, change, note); err != nil {
			return err
		}
	}
	for _, r := range change.runs {
		if r.state == change.to.Behaviour().State {
			continue
		}
		if err := in.writeStates(ctx, r, note); err != nil {
			return err
		}
	}
	return nil
}

// writeStates writes the state of the old definitions into the runs of a kind that have none.
func (in *installer) writeStates(ctx context.Context, r runKind, note func(string)) error {
	var written []string
	err := in.each(ctx, r.resource, func(run *unstructured.Unstructured) error {
		if !needsState(run, r.state) {
			return nil
		}
		patch := fmt.Sprintf(`{"metadata":{"resourceVersion":%q},"spec":{"state":%q}}`, run.GetResourceVersion(), r.state)
		_, err := in.client.Resource(r.resource).Namespace(run.GetNamespace()).
			Patch(ctx, run.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: fieldManager, DryRun: in.dryRuns()})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s %s: writing the state %s, which it has by the definitions so far: %w", r.kind, run.GetName(), r.state, err)
		}
		written = append(written, strings.TrimPrefix(run.GetNamespace()+"/"+run.GetName(), "/"))
		return nil
	})
	if err == nil && len(written) > 0 {
		note(fmt.Sprintf("%d %s without spec.state keep the state %s, which is written into them: %s", len(written), r.kind, r.state, someOf(written)))
	}
	return err
}

// needsState reports whether a run must get its current default state as a stored value. A server
// shows a default like a stored value, so a run with that value is always written. A refused run
// has ended, and a run that was stopped or only planned must not be told to run.
func needsState(run *unstructured.Unstructured, state v1beta1.State) bool {
	now := api.StateOf(run, "")
	if run.GetDeletionTimestamp() != nil {
		return false
	}
	if state == v1beta1.StateInitialize {
		return now == state
	}
	if now != "" {
		return false
	}
	initialized, progressing := api.ConditionOf(run, api.ConditionInitialized), api.ConditionOf(run, api.ConditionProgressing)
	switch {
	case initialized.Status == "False", initialized.Status == "True" && progressing.Status == "":
		return false
	default:
		return progressing.Reason != api.ReasonRunStopped && progressing.Reason != api.ReasonRunStopping
	}
}

// noteObjects sends notes about the effect of the new setting on placements and requests.
func (in *installer) noteObjects(ctx context.Context, change settingChange, note func(string)) error {
	var external, open []string
	for _, scope := range []api.Scope{api.ClusterScope, api.NamespaceScope} {
		err := in.each(ctx, scope.GVR(api.PlacementKind), func(u *unstructured.Unstructured) error {
			if api.RolloutOf(u) == v1beta1.ExternalRolloutStrategyType {
				external = append(external, strings.TrimPrefix(u.GetNamespace()+"/"+u.GetName(), "/"))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, scope := range []api.Scope{api.ClusterScope, api.NamespaceScope} {
		err := in.each(ctx, scope.GVR(api.ApprovalKind), func(u *unstructured.Unstructured) error {
			if api.ConditionOf(u, api.ConditionAccepted).Status != "True" {
				open = append(open, strings.TrimPrefix(u.GetNamespace()+"/"+u.GetName(), "/"))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if len(external) > 0 {
		what := "take no snapshot of a change any more, a run without an index takes it"
		if change.to.Behaviour().SnapshotsOfChanges {
			what = "take a snapshot of each change from now on, and roll none out by themselves"
		}
		note(fmt.Sprintf("%d placements with strategy External %s: %s", len(external), what, someOf(external)))
	}
	if len(open) > 0 {
		note(fmt.Sprintf("%d approval requests are open and keep their names: %s", len(open), someOf(open)))
	}
	return nil
}

// someOf joins names, at most ten of them.
func someOf(names []string) string {
	slices.Sort(names)
	const most = 10
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// each calls f for every object of a resource; none if the resource is not defined. If an object
// changed since it was read, f gets it again, so f may see an object twice.
func (in *installer) each(ctx context.Context, resource schema.GroupVersionResource, f func(*unstructured.Unstructured) error) error {
	page := metav1.ListOptions{Limit: 200}
	for {
		list, err := in.client.Resource(resource).List(ctx, page)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", resource.Resource, err)
		}
		for i := range list.Items {
			if err := in.tryEach(ctx, resource, &list.Items[i], f); err != nil {
				return err
			}
		}
		if page.Continue = list.GetContinue(); page.Continue == "" {
			return nil
		}
	}
}

// tryEach calls f with the newest object until there is no conflict.
func (in *installer) tryEach(ctx context.Context, resource schema.GroupVersionResource, u *unstructured.Unstructured, f func(*unstructured.Unstructured) error) error {
	for {
		err := f(u)
		if !apierrors.IsConflict(errors.Unwrap(err)) || ctx.Err() != nil {
			return err
		}
		if u, err = in.client.Resource(resource).Namespace(u.GetNamespace()).Get(ctx, u.GetName(), metav1.GetOptions{}); err != nil {
			if apierrors.IsNotFound(err) {
				return nil
			}
			return err
		}
	}
}
