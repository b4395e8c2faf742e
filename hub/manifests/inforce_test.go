package manifests

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// The policies are in force once they are installed, and no longer once somebody
// weakens one or its binding.
func TestPoliciesAreInForceUntilSomebodyChangesThem(t *testing.T) {
	server := kubeenv.ForTest(t).Server(t, "hub")
	client, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	expect := func(want bool, when string) {
		t.Helper()
		if got, err := InForce(t.Context(), client); err != nil || got != want {
			t.Fatalf("%s: in force is %v, %v; want %v", when, got, err, want)
		}
	}
	expect(false, "before they are installed")
	if err := Install(t.Context(), server.Config(), Options{}); err != nil {
		t.Fatal(err)
	}
	expect(true, "installed")
	api := client.AdmissionregistrationV1()
	const name = "slipway-approval-identity"
	weaker := []byte(`{"spec":{"failurePolicy":"Ignore"}}`)
	if _, err := api.MutatingAdmissionPolicies().Patch(t.Context(), name, types.MergePatchType, weaker, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	expect(false, "failures are ignored")
	if err := Install(t.Context(), server.Config(), Options{}); err != nil {
		t.Fatal(err)
	}
	expect(true, "installed again")
	narrower := []byte(`{"spec":{"matchResources":{"namespaceSelector":{"matchLabels":{"a":"b"}}}}}`)
	if _, err := api.MutatingAdmissionPolicyBindings().Patch(t.Context(), name, types.MergePatchType, narrower, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	expect(false, "the binding leaves something out")
	if err := api.MutatingAdmissionPolicyBindings().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect(false, "there is no binding")
}
