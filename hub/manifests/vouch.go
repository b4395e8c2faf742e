package manifests

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// rightsPolicy is the policy that refuses an identity that is not the client's own.
const rightsPolicy = "slipway-approval-rights"

// Vouches tells whether the API server that cfg names has the policy that makes the identities in the
// status of an approval request, where there are any, those that it authenticated. Without it they are
// claims. That the policy is there does not mean that it acted on what was written before it was. cfg is
// neither changed nor kept; it needs the rights of [HubRBAC].
func Vouches(ctx context.Context, cfg *rest.Config) (bool, error) {
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return false, fmt.Errorf("manifests: %w", err)
	}
	binding, err := policyObject(ctx, client, "validatingadmissionpolicybindings")
	if err != nil || binding == nil {
		return false, err
	}
	policy, err := policyObject(ctx, client, "validatingadmissionpolicies")
	if err != nil || policy == nil {
		return false, err
	}
	return denies(binding) && failsClosed(policy), nil
}

// policyObject returns nil where the server has no such object, or no such kind.
func policyObject(ctx context.Context, client dynamic.Interface, resource string) (*unstructured.Unstructured, error) {
	gvr := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource}
	u, err := client.Resource(gvr).Get(ctx, rightsPolicy, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("manifests: %s %s: %w", resource, rightsPolicy, err)
	}
	return u, nil
}

// denies tells that a binding is of the policy and refuses what the policy does.
func denies(binding *unstructured.Unstructured) bool {
	name, _, _ := unstructured.NestedString(binding.Object, "spec", "policyName")
	actions, _, _ := unstructured.NestedStringSlice(binding.Object, "spec", "validationActions")
	return name == rightsPolicy && slices.Contains(actions, "Deny")
}

func failsClosed(policy *unstructured.Unstructured) bool {
	failure, _, _ := unstructured.NestedString(policy.Object, "spec", "failurePolicy")
	return failure == "Fail"
}
