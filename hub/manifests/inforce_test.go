package manifests

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	admissionclient "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"

	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// weakenings are ways to remove each kind of protection, with the resulting problem.
var weakenings = map[string]struct {
	do   func(t *testing.T, api admissionclient.AdmissionregistrationV1Interface) error
	want string
}{
	"the rights policy deleted": {func(t *testing.T, api admissionclient.AdmissionregistrationV1Interface) error {
		return api.ValidatingAdmissionPolicies().Delete(t.Context(), rightsPolicy, metav1.DeleteOptions{})
	}, "ValidatingAdmissionPolicy slipway-approval-rights is missing"},
	"its binding deleted": {func(t *testing.T, api admissionclient.AdmissionregistrationV1Interface) error {
		return api.ValidatingAdmissionPolicyBindings().Delete(t.Context(), rightsPolicy, metav1.DeleteOptions{})
	}, "ValidatingAdmissionPolicyBinding slipway-approval-rights is missing"},
	"its binding audits": {
		patchRightsBinding(`{"spec":{"validationActions":["Audit"]}}`),
		"ValidatingAdmissionPolicyBinding slipway-approval-rights was changed: spec.validationActions",
	},
	"its binding warns": {
		patchRightsBinding(`{"spec":{"validationActions":["Warn"]}}`),
		"ValidatingAdmissionPolicyBinding slipway-approval-rights was changed: spec.validationActions",
	},
	"its binding leaves namespaces out": {
		patchRightsBinding(`{"spec":{"matchResources":{"namespaceSelector":{"matchLabels":{"a":"b"}}}}}`),
		"ValidatingAdmissionPolicyBinding slipway-approval-rights was changed: spec.matchResources",
	},
	"its failures ignored": {
		patchRightsPolicy(`{"spec":{"failurePolicy":"Ignore"}}`),
		"ValidatingAdmissionPolicy slipway-approval-rights was changed: spec.failurePolicy",
	},
	"its conditions never met": {
		patchRightsPolicy(`{"spec":{"matchConditions":[{"name":"never","expression":"false"}]}}`),
		"ValidatingAdmissionPolicy slipway-approval-rights was changed: spec.matchConditions",
	},
	"it matches other objects": {
		patchRightsPolicy(`{"spec":{"matchConstraints":{"objectSelector":{"matchLabels":{"a":"b"}}}}}`),
		"ValidatingAdmissionPolicy slipway-approval-rights was changed: spec.matchConstraints",
	},
	"its rules always hold": {
		patchRightsPolicy(`{"spec":{"validations":[{"expression":"true"}]}}`),
		"ValidatingAdmissionPolicy slipway-approval-rights was changed: spec.validations",
	},
	"who answers written down no more": {func(t *testing.T, api admissionclient.AdmissionregistrationV1Interface) error {
		return api.MutatingAdmissionPolicies().Delete(t.Context(), "slipway-approval-identity", metav1.DeleteOptions{})
	}, "MutatingAdmissionPolicy slipway-approval-identity is missing"},
	"who answers written down somewhere": {func(t *testing.T, api admissionclient.AdmissionregistrationV1Interface) error {
		patch := []byte(`{"spec":{"matchResources":{"namespaceSelector":{"matchLabels":{"a":"b"}}}}}`)
		_, err := api.MutatingAdmissionPolicyBindings().Patch(t.Context(), "slipway-approval-identity", types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}, "MutatingAdmissionPolicyBinding slipway-approval-identity was changed: spec.matchResources"},
}

const rightsPolicy = "slipway-approval-rights"

func patchRightsPolicy(patch string) func(*testing.T, admissionclient.AdmissionregistrationV1Interface) error {
	return func(t *testing.T, api admissionclient.AdmissionregistrationV1Interface) error {
		_, err := api.ValidatingAdmissionPolicies().Patch(t.Context(), rightsPolicy, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
}

func patchRightsBinding(patch string) func(*testing.T, admissionclient.AdmissionregistrationV1Interface) error {
	return func(t *testing.T, api admissionclient.AdmissionregistrationV1Interface) error {
		_, err := api.ValidatingAdmissionPolicyBindings().Patch(t.Context(), rightsPolicy, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
}

// The policies are in force once they are installed, until a policy or a binding is deleted or
// weakened in any way. Another installation repairs them, and this can be detected: objects that
// were written in between have no reliable author.
func TestPoliciesAreInForceUntilOneIsChanged(t *testing.T) {
	t.Parallel()
	server := kubeenv.ForTest(t).Server(t, "hub")
	client, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	inspect := func() Standing {
		t.Helper()
		s, err := Inspect(t.Context(), client)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	policies, err := Policies()
	if err != nil {
		t.Fatal(err)
	}
	if s := inspect(); s.Validating != None || s.Mutating != None || s.Version != "" || len(s.Problems) != len(policies) {
		t.Fatalf("before they are installed: %+v", s)
	}
	reinstall := func() Standing {
		t.Helper()
		if err := Install(t.Context(), server.Config(), Options{}); err != nil {
			t.Fatal(err)
		}
		s := inspect()
		if !s.Identity() || len(s.Problems) > 0 || s.Version == "" {
			t.Fatalf("installed: %+v", s)
		}
		return s
	}
	s := reinstall()
	if s.Changed || s.Created.IsZero() {
		t.Errorf("installed for the first time: %+v", s)
	}
	if again := reinstall(); again.Version != s.Version {
		t.Error("an installation that changes nothing makes another version")
	}
	versions := map[string]string{s.Version: "installed"}
	for name, w := range weakenings {
		if err := w.do(t, client.AdmissionregistrationV1()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s := inspect()
		if s.Identity() || strings.Join(s.Problems, "; ") != w.want {
			t.Errorf("%s: %+v, want the problem %s", name, s, w.want)
		}
		if other, is := versions[s.Version]; is {
			t.Errorf("%s: the version is that of %s", name, other)
		}
		versions[s.Version] = name
		s = reinstall()
		if other, is := versions[s.Version]; is {
			t.Errorf("mended after %s: the version is that of %s", name, other)
		}
		versions[s.Version] = "mended after " + name
	}
}

// A policy that cannot be read may have any content, so it does not count as never installed.
func TestExtentOfThePolicies(t *testing.T) {
	at := metav1.Unix(1000, 0)
	have := func(generation int64) metav1.Object {
		return &metav1.ObjectMeta{UID: "u", Generation: generation, CreationTimestamp: at}
	}
	const v, b, m = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy"
	for name, tc := range map[string]struct {
		all                  []installed
		validating, mutating Extent
		changed              bool
		problems             []string
	}{
		"all":                  {[]installed{{v, "p", have(1), ""}, {b, "p", have(1), ""}, {m, "p", have(1), ""}}, Complete, Complete, false, nil},
		"all, one changed":     {[]installed{{v, "p", have(2), ""}, {b, "p", have(1), ""}, {m, "p", have(1), ""}}, Complete, Complete, true, nil},
		"an older server":      {[]installed{{v, "p", have(1), ""}, {b, "p", have(1), ""}, {m, "p", nil, isMissing}}, Complete, None, false, []string{m + " p is missing"}},
		"none":                 {[]installed{{v, "p", nil, isMissing}, {b, "p", nil, isMissing}, {m, "p", nil, isMissing}}, None, None, false, []string{v + " p is missing", b + " p is missing", m + " p is missing"}},
		"a binding is missing": {[]installed{{v, "p", have(1), ""}, {b, "p", nil, isMissing}, {m, "p", have(1), ""}}, Partial, Complete, false, []string{b + " p is missing"}},
		"one is other":         {[]installed{{v, "p", have(1), "was changed"}, {b, "p", have(1), ""}, {m, "p", have(1), ""}}, Partial, Complete, false, []string{v + " p was changed"}},
		"none may be read":     {[]installed{{v, "p", nil, "may not be read"}, {b, "p", nil, "may not be read"}, {m, "p", nil, isMissing}}, Partial, None, false, []string{v + " p may not be read", b + " p may not be read", m + " p is missing"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := standingOf(tc.all)
			if got.Validating != tc.validating || got.Mutating != tc.mutating || got.Changed != tc.changed {
				t.Errorf("got %+v", got)
			}
			if d := cmp.Diff(tc.problems, got.Problems); d != "" {
				t.Error(d)
			}
		})
	}
}
