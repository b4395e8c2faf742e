package manifests

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/hub/internal/api"
)

// pollInterval is the interval between checks whether the server is ready. A server needs about a
// second for new kinds.
const pollInterval = 100 * time.Millisecond

// awaitServed returns once every version of every definition can be listed.
func (in *installer) awaitServed(ctx context.Context, crds []*unstructured.Unstructured) error {
	for _, crd := range crds {
		if err := in.awaitDefinition(ctx, crd); err != nil {
			return fmt.Errorf("%s: %w", crd.GetName(), err)
		}
	}
	return nil
}

func (in *installer) awaitDefinition(ctx context.Context, crd *unstructured.Unstructured) error {
	if err := poll(ctx, func(ctx context.Context) error { return in.established(ctx, crd) }); err != nil {
		return err
	}
	for _, gvr := range resources(crd) {
		err := poll(ctx, func(ctx context.Context) error {
			_, err := in.client.Resource(gvr).List(ctx, metav1.ListOptions{Limit: 1})
			return err
		})
		if err != nil {
			return fmt.Errorf("version %s is not served: %w", gvr.Version, err)
		}
	}
	return nil
}

// established returns an error unless the server has accepted the definition.
func (in *installer) established(ctx context.Context, crd *unstructured.Unstructured) error {
	r, err := in.resource(crd)
	if err != nil {
		return err
	}
	now, err := r.Get(ctx, crd.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	conditions, _, _ := unstructured.NestedSlice(now.Object, "status", "conditions")
	for _, c := range conditions {
		c, _ := c.(map[string]any)
		switch {
		case c["type"] == "NamesAccepted" && c["status"] == "False":
			return fmt.Errorf("a name is taken by another definition: %v", c["message"])
		case c["type"] == "Established" && c["status"] == "True":
			return nil
		}
	}
	return errors.New("the definition is not established")
}

// resources returns the served versions of a definition.
func resources(crd *unstructured.Unstructured) []schema.GroupVersionResource {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	var all []schema.GroupVersionResource
	for _, v := range versions {
		v, _ := v.(map[string]any)
		if v["served"] != true {
			continue
		}
		name, _ := v["name"].(string)
		all = append(all, schema.GroupVersionResource{Group: group, Version: name, Resource: plural})
	}
	return all
}

// awaitNamespace returns once the namespace of the hub is not being deleted, because a server takes
// no object for such a namespace.
func (in *installer) awaitNamespace(ctx context.Context, o Options) error {
	if o.Hub == nil {
		return nil
	}
	name, noted := o.Hub.namespace(), false
	err := poll(ctx, func(ctx context.Context) error {
		u, err := in.client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil || u.GetDeletionTimestamp() == nil {
			return err
		}
		if !noted && o.Note != nil {
			noted = true
			o.Note("waiting for the end of the deletion of the namespace " + name)
		}
		return errors.New("it is still being deleted: repeat the command once it is gone")
	})
	if err != nil {
		return fmt.Errorf("namespace %s: %w", name, err)
	}
	return nil
}

// awaitPolicies returns once the policies act, which is some time after they were applied. The
// server loads policies in their order, so the policies of runs, which are last, prove it for all.
func (in *installer) awaitPolicies(ctx context.Context) error {
	if err := poll(ctx, in.refused); err != nil {
		return fmt.Errorf("the validating policies do not act: %w", err)
	}
	if !in.mutates {
		return nil
	}
	if err := poll(ctx, in.stamped); err != nil {
		return fmt.Errorf("the mutating policies do not act: %w", err)
	}
	return nil
}

// refused returns an error unless the validating policy refuses a dry run that it must refuse.
func (in *installer) refused(ctx context.Context) error {
	_, err := in.dryRun(ctx, probeName, "")
	switch {
	case apierrors.IsInvalid(err):
		return nil
	case err == nil:
		return fmt.Errorf("a run with the name %s is not refused", probeName)
	default:
		return err
	}
}

// stamped returns an error unless the mutating policy adds its annotation to a run in a dry run.
func (in *installer) stamped(ctx context.Context) error {
	got, err := in.dryRun(ctx, "", probeName+"-")
	if err != nil {
		return err
	}
	if got.GetAnnotations()[CreatedBy] == "" {
		return fmt.Errorf("a run that is created does not get the annotation %s", CreatedBy)
	}
	return nil
}

// probeName is a name of a run that the validating policy refuses.
const probeName = "slipway-install-probe"

// dryRun sends the creation of a run with a name, or with a generated one, as a dry run and returns the
// answer.
func (in *installer) dryRun(ctx context.Context, name, prefix string) (*unstructured.Unstructured, error) {
	run, err := api.NewRun(api.ClusterScope, &v1beta1.UpdateRunSpec{PlacementName: "probe", StagedUpdateStrategyName: "probe"})
	if err != nil {
		return nil, err
	}
	run.SetName(name)
	run.SetGenerateName(prefix)
	return in.client.Resource(api.ClusterScope.GVR(api.RunKind)).Create(ctx, run, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// poll calls f until it returns nil, a request is forbidden, or the context ends. The error is the
// last one of f.
func poll(ctx context.Context, f func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		err := f(ctx)
		if ctx.Err() == nil || last == nil {
			last = err
		}
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			return false, err
		}
		return err == nil, nil
	})
	if err != nil && last != nil {
		return last
	}
	return err
}
