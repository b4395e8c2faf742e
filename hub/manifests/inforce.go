package manifests

import (
	"context"
	"fmt"
	"sync"
	"time"

	admission "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/slipway-dev/slipway/approval"
)

// InForce tells whether the API server has the mutating policies of this package,
// and bindings that apply them to everything, so that what stands in a request
// about who decided, and in a run about who made it, was written by the API server.
// It is false on a server that does not know such policies, and where somebody has
// changed one: then nobody vouches for an identity.
//
// It asks for four objects, which takes the right to get them.
func InForce(ctx context.Context, client kubernetes.Interface) (bool, error) {
	since, err := InForceSince(ctx, client)
	return !since.IsZero(), err
}

// wantedPolicies are the Policies, read once; nobody changes these.
var wantedPolicies = sync.OnceValues(Policies) //nolint:gochecknoglobals // a cache of what is compiled into the program

// InForceSince is InForce, and since when: the zero time where it is not so. Nobody
// vouches for what stands in an object that is not younger, because it may have been
// written while there was no policy.
func InForceSince(ctx context.Context, client kubernetes.Interface) (since time.Time, err error) {
	wanted, err := wantedPolicies()
	if err != nil {
		return time.Time{}, err
	}
	for _, want := range wanted {
		var have metav1.Object
		switch want.GetKind() {
		case "MutatingAdmissionPolicy":
			have, err = client.AdmissionregistrationV1().MutatingAdmissionPolicies().Get(ctx, want.GetName(), metav1.GetOptions{})
		case "MutatingAdmissionPolicyBinding":
			have, err = client.AdmissionregistrationV1().MutatingAdmissionPolicyBindings().Get(ctx, want.GetName(), metav1.GetOptions{})
		default:
			continue
		}
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			return time.Time{}, nil
		}
		if err != nil {
			return time.Time{}, fmt.Errorf("manifests: %s %s: %w", want.GetKind(), want.GetName(), err)
		}
		same, err := asWanted(want, have)
		if err != nil || !same {
			return time.Time{}, err
		}
		if made := have.GetCreationTimestamp(); made.After(since) {
			since = made.Time
		}
	}
	return since, nil
}

// asWanted tells whether a policy or a binding has the spec that it was installed
// with. What a server adds by default is no difference.
func asWanted(want *unstructured.Unstructured, have any) (bool, error) {
	switch have := have.(type) {
	case *admission.MutatingAdmissionPolicy:
		var w admission.MutatingAdmissionPolicy
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(want.Object, &w)
		defaulted(&w.Spec)
		return equality.Semantic.DeepEqual(w.Spec, have.Spec), err
	case *admission.MutatingAdmissionPolicyBinding:
		var w admission.MutatingAdmissionPolicyBinding
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(want.Object, &w)
		return equality.Semantic.DeepEqual(w.Spec, have.Spec), err
	}
	return false, fmt.Errorf("manifests: %T is no policy", have)
}

// defaulted fills in what the API server does.
func defaulted(s *admission.MutatingAdmissionPolicySpec) {
	if s.MatchConstraints == nil {
		return
	}
	equivalent, all := admission.Equivalent, admission.AllScopes
	if s.MatchConstraints.MatchPolicy == nil {
		s.MatchConstraints.MatchPolicy = &equivalent
	}
	if s.MatchConstraints.NamespaceSelector == nil {
		s.MatchConstraints.NamespaceSelector = &metav1.LabelSelector{}
	}
	if s.MatchConstraints.ObjectSelector == nil {
		s.MatchConstraints.ObjectSelector = &metav1.LabelSelector{}
	}
	for i := range s.MatchConstraints.ResourceRules {
		if r := &s.MatchConstraints.ResourceRules[i]; r.Scope == nil {
			r.Scope = &all
		}
	}
}

// Requester is who asked last for a run to be taken back, as [Creator] is who made it.
func Requester(run metav1.Object) approval.Identity {
	return approval.Identity{Name: run.GetAnnotations()[RollbackBy]}
}

// Creator is who made a run, by the annotations that the policies stamp; nobody
// where there are none. It is only as true as [InForce].
func Creator(run metav1.Object) approval.Identity {
	return approval.Identity{Name: run.GetAnnotations()[CreatedBy]}
}
