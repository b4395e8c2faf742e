package manifests_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/hub/manifests"
)

// TestAServerVouchesWhileThePolicyRefuses takes the policy away and gives it back.
func TestAServerVouchesWhileThePolicyRefuses(t *testing.T) {
	s := olderServer(t)
	hub := s.ConfigFor(hubUser)
	wantVouches := func(want bool) {
		t.Helper()
		if got, err := manifests.Vouches(t.Context(), hub); err != nil || got != want {
			t.Fatalf("%t, %v, want %t", got, err, want)
		}
	}
	wantVouches(true)
	bindings := clientFor(t, s.Config()).Resource(schema.GroupVersionResource{
		Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings",
	})
	const name = "slipway-approval-rights"
	warn := []byte(`{"spec":{"validationActions":["Audit"]}}`)
	if _, err := bindings.Patch(t.Context(), name, types.MergePatchType, warn, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	wantVouches(false)
	if err := bindings.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wantVouches(false)
	if _, err := install(t.Context(), s.Config()); err != nil {
		t.Fatal(err)
	}
	wantVouches(true)
	if _, err := manifests.Vouches(t.Context(), s.ConfigFor("nobody")); err == nil {
		t.Error("no error for who may not look")
	}
}
