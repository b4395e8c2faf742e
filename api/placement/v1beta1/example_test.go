package v1beta1_test

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
)

// A run is an object like any other: a client writes it, and the server's default takes the place of a
// field that is absent.
func Example() {
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		fmt.Println(err)
		return
	}
	run := &v1beta1.ClusterStagedUpdateRun{
		ObjectMeta: metav1.ObjectMeta{Name: "web-7"},
		Spec:       v1beta1.UpdateRunSpec{PlacementName: "web", StagedUpdateStrategyName: "careful", State: v1beta1.StateRun},
	}
	kinds, _, err := scheme.ObjectKinds(run)
	if err != nil {
		fmt.Println(err)
		return
	}
	run.SetGroupVersionKind(kinds[0])
	text, err := json.MarshalIndent(run, "", "  ")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(text))
	// Output:
	// {
	//   "kind": "ClusterStagedUpdateRun",
	//   "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
	//   "metadata": {
	//     "name": "web-7"
	//   },
	//   "spec": {
	//     "placementName": "web",
	//     "resourceSnapshotIndex": "",
	//     "stagedRolloutStrategyName": "careful",
	//     "state": "Run"
	//   }
	// }
}
