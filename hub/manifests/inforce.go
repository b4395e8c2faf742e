package manifests

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
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

// Standing describes the admission policies of this package on an API server.
type Standing struct {
	// Validating and Mutating describe the policies of each kind and their bindings. A server
	// before 1.36 has no mutating policies.
	Validating, Mutating Extent
	// Problems has a text for each policy and binding that is missing, was changed or cannot be
	// read, in the order of installation.
	Problems []string
	// Version changes whenever a policy or a binding is changed, deleted or created again. Policies
	// with the same Version before and after a read were in force during the read. It is empty if
	// the server has none.
	Version string
	// Created is when the newest policy or binding was created, by the clock of the API server.
	Created time.Time
	// Changed reports whether a policy or a binding was changed after its creation. Its earlier
	// content is unknown.
	Changed bool
}

// Extent describes how many of the policies and bindings are present.
type Extent int

// The extents.
const (
	// None: nothing is present.
	None Extent = iota
	// Partial: something is missing, was changed or cannot be read.
	Partial
	// Complete: everything is present and unchanged.
	Complete
)

// Identity reports whether the API server has recorded the authors in requests and runs.
func (s *Standing) Identity() bool { return s.Validating == Complete && s.Mutating == Complete }

// Inspect compares the policies and the bindings of an API server with the ones in this package. It
// reads each by its name, all at the same time, and needs the right to get them. A policy that is
// forbidden to read is a problem in the result; other errors of the API server are returned.
func Inspect(ctx context.Context, client kubernetes.Interface) (Standing, error) {
	wanted, err := wantedPolicies()
	if err != nil {
		return Standing{}, err
	}
	all, problems := make([]installed, len(wanted)), make([]error, len(wanted))
	var reads sync.WaitGroup
	for i, want := range wanted {
		reads.Go(func() {
			if all[i], problems[i] = inspect(ctx, client, want); problems[i] != nil {
				problems[i] = fmt.Errorf("manifests: %s %s: %w", want.GetKind(), want.GetName(), problems[i])
			}
		})
	}
	reads.Wait()
	for _, err := range problems {
		if err != nil {
			return Standing{}, err
		}
	}
	return standingOf(all), nil
}

// wantedPolicies are the Policies, read once; nothing changes these.
var wantedPolicies = sync.OnceValues(Policies) //nolint:gochecknoglobals // a cache of embedded data, which never changes

// installed is a policy or a binding on a server.
type installed struct {
	kind, name string
	// have is its metadata, nil if it does not exist.
	have metav1.Object
	// wrong is the problem with it, "" if there is none.
	wrong string
}

// isMissing is the problem with a policy or binding that does not exist.
const isMissing = "is missing"

// inspect compares one policy or binding.
func inspect(ctx context.Context, client kubernetes.Interface, want *unstructured.Unstructured) (installed, error) {
	out := installed{kind: want.GetKind(), name: want.GetName()}
	have, spec, wanted, err := policyOf(ctx, client, want)
	switch {
	case apierrors.IsNotFound(err):
		out.wrong = isMissing
		return out, nil
	case apierrors.IsForbidden(err):
		out.wrong = "may not be read by the hub"
		return out, nil
	case err != nil:
		return out, err
	}
	out.have = have
	if !equality.Semantic.DeepEqual(spec, wanted) {
		out.wrong = "was changed"
		if fields := differing(spec, wanted); fields != "" {
			out.wrong += ": " + fields
		}
	}
	return out, nil
}

// policyOf reads an object, and returns its spec and the wanted spec. Defaults of the server do not
// count as differences.
func policyOf(ctx context.Context, client kubernetes.Interface, want *unstructured.Unstructured) (have metav1.Object, spec, wanted any, err error) {
	api, get := client.AdmissionregistrationV1(), metav1.GetOptions{}
	read := runtime.DefaultUnstructuredConverter.FromUnstructured
	switch want.GetKind() {
	case "MutatingAdmissionPolicy":
		var w admission.MutatingAdmissionPolicy
		bad := read(want.Object, &w)
		defaulted(w.Spec.MatchConstraints)
		h, err := api.MutatingAdmissionPolicies().Get(ctx, want.GetName(), get)
		return h, h.Spec, w.Spec, errors.Join(bad, err)
	case "MutatingAdmissionPolicyBinding":
		var w admission.MutatingAdmissionPolicyBinding
		bad := read(want.Object, &w)
		h, err := api.MutatingAdmissionPolicyBindings().Get(ctx, want.GetName(), get)
		return h, h.Spec, w.Spec, errors.Join(bad, err)
	case "ValidatingAdmissionPolicy":
		var w admission.ValidatingAdmissionPolicy
		bad := read(want.Object, &w)
		defaulted(w.Spec.MatchConstraints)
		h, err := api.ValidatingAdmissionPolicies().Get(ctx, want.GetName(), get)
		return h, h.Spec, w.Spec, errors.Join(bad, err)
	case "ValidatingAdmissionPolicyBinding":
		var w admission.ValidatingAdmissionPolicyBinding
		bad := read(want.Object, &w)
		h, err := api.ValidatingAdmissionPolicyBindings().Get(ctx, want.GetName(), get)
		return h, h.Spec, w.Spec, errors.Join(bad, err)
	default:
		return nil, nil, nil, fmt.Errorf("%s is no kind of policy", want.GetKind())
	}
}

// defaulted sets the defaults that the API server sets.
func defaulted(m *admission.MatchResources) {
	if m == nil {
		return
	}
	equivalent, all := admission.Equivalent, admission.AllScopes
	if m.MatchPolicy == nil {
		m.MatchPolicy = &equivalent
	}
	if m.NamespaceSelector == nil {
		m.NamespaceSelector = &metav1.LabelSelector{}
	}
	if m.ObjectSelector == nil {
		m.ObjectSelector = &metav1.LabelSelector{}
	}
	for i := range m.ResourceRules {
		if r := &m.ResourceRules[i]; r.Scope == nil {
			r.Scope = &all
		}
	}
}

// differing returns the names of the different fields of two specs of one type, such as
// "spec.failurePolicy, spec.variables".
func differing(have, want any) string {
	a, b := reflect.ValueOf(have), reflect.ValueOf(want)
	var out []string
	for i := range a.NumField() {
		if !equality.Semantic.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
			out = append(out, "spec."+name)
		}
	}
	return strings.Join(out, ", ")
}

// standingOf summarizes the comparisons. An object that cannot be read counts as changed, because
// it may exist.
func standingOf(all []installed) Standing {
	var s Standing
	var validating, mutating tally
	sum := sha256.New()
	for _, one := range all {
		of := &validating
		if strings.HasPrefix(one.kind, mutatingPolicy) {
			of = &mutating
		}
		of.wanted++
		switch one.wrong {
		case "":
			of.right++
		case isMissing:
			of.missing++
		}
		if one.wrong != "" {
			s.Problems = append(s.Problems, one.kind+" "+one.name+" "+one.wrong)
		}
		if one.have == nil {
			continue
		}
		s.Version = "of what is there"
		_, _ = fmt.Fprintf(sum, "%s/%s/%s/%d\n", one.kind, one.name, one.have.GetUID(), one.have.GetGeneration())
		s.Changed = s.Changed || one.have.GetGeneration() > 1
		if made := one.have.GetCreationTimestamp(); made.After(s.Created) {
			s.Created = made.Time
		}
	}
	if s.Version != "" {
		s.Version = hex.EncodeToString(sum.Sum(nil)[:16])
	}
	s.Validating, s.Mutating = validating.extent(), mutating.extent()
	return s
}

// tally counts policies and bindings.
type tally struct{ wanted, right, missing int }

func (t *tally) extent() Extent {
	switch t.wanted {
	case t.right:
		return Complete
	case t.missing:
		return None
	default:
		return Partial
	}
}

// Requester returns the identity that last requested a rollback of a run. It is as reliable as the
// identity from [Creator].
func Requester(run metav1.Object) approval.Identity {
	return approval.Identity{Name: run.GetAnnotations()[RollbackBy]}
}

// Creator returns the identity that created a run, from the annotations that the policies stamp;
// empty if there are none. The identity is reliable if the run was created after the policies were
// installed, and [Standing.Identity] returns true.
func Creator(run metav1.Object) approval.Identity {
	return approval.Identity{Name: run.GetAnnotations()[CreatedBy]}
}
