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

// Standing says which of the admission policies of this package an API server has.
type Standing struct {
	// Validating and Mutating are about the policies of either kind with their bindings. A server
	// before 1.36 has no mutating ones.
	Validating, Mutating Extent
	// Problems names each policy and each binding that is missing, was changed or may not be read, and says
	// which of these, in the order in which they are installed.
	Problems []string
	// Version is the same as long as no policy and no binding that is there was changed, deleted or created
	// again: what was read under the same version twice was in force in between. It is "" where none is there.
	Version string
	// Created is when the youngest of them was created, by the clock of the API server.
	Created time.Time
	// Changed reports whether one was changed after it was created. What it asked for until then is not known.
	Changed bool
}

// Extent is how much of something is there.
type Extent int

// The extents.
const (
	// None: nothing is there.
	None Extent = iota
	// Partial: something is missing, was changed or may not be read.
	Partial
	// Complete: everything is there as this package has it.
	Complete
)

// Identity reports whether what stands in a request about who answered it, and in a run about who made it, was
// written by the API server.
func (s *Standing) Identity() bool { return s.Validating == Complete && s.Mutating == Complete }

// Inspect compares the policies and the bindings that an API server has with those of this package. It reads
// each by its name, all at the same time, which takes the right to get it. The error is that of a server which does not answer.
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
var wantedPolicies = sync.OnceValues(Policies) //nolint:gochecknoglobals // a cache of what is compiled into the program

// installed is a policy or a binding as a server has it.
type installed struct {
	kind, name string
	// have is its metadata, nil where there is none.
	have metav1.Object
	// wrong says what is wrong with it, "" for nothing.
	wrong string
}

// isMissing is what is wrong with what a server does not have.
const isMissing = "is missing"

// inspect reads one policy or binding.
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

// policyOf reads an object, and returns its spec and the one it was installed with. What a server adds by default
// is no difference.
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

// defaulted fills in what the API server does.
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

// differing names the fields in which two specs of one type differ, "spec.failurePolicy, spec.variables".
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

// standingOf sums up what was read. What may not be read counts as changed: it is not known to be missing.
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

// Requester is who asked last for a run to be taken back, as [Creator] is who made it.
func Requester(run metav1.Object) approval.Identity {
	return approval.Identity{Name: run.GetAnnotations()[RollbackBy]}
}

// Creator is who made a run, by the annotations that the policies stamp; an empty identity where there are none.
// It is only as true as [Standing.Identity] of a run that is younger than the policies.
func Creator(run metav1.Object) approval.Identity {
	return approval.Identity{Name: run.GetAnnotations()[CreatedBy]}
}
