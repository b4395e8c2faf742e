package kubefleet_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/slipway-dev/slipway/formats/kubefleet"
)

// The files of the tutorial can be read one by one and combined by the host, or, as here, all
// together.
func ExampleRead() {
	files, err := filepath.Glob("testdata/tutorial/*.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	var all []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			fmt.Println(err)
			return
		}
		all = append(all, string(text))
	}
	docs, err := kubefleet.Read(strings.NewReader(strings.Join(all, "---\n")), "tutorial")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(docs.Objects), "objects for", len(docs.Clusters), "clusters")
	run, err := docs.RunSpec("example-run")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("roll out snapshot", *run.Index, "of", run.Placement)
	for _, s := range run.Strategy.Stages {
		fmt.Println("stage", s.Name, "then", s.After[0].Type)
	}
	// Output:
	// 2 objects for 3 clusters
	// roll out snapshot 1 of example-placement
	// stage staging then TimedWait
	// stage canary then Approval
}

func ExampleRead_problems() {
	_, err := kubefleet.Read(strings.NewReader(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateRun
metadata:
  name: example-run
spec:
  placementName: example-placement
  resourceSnapshotIndex: 1
  strategyName: example-strategy
`), "run.yaml")
	fmt.Println(err)
	// Output:
	// run.yaml:7: ClusterStagedUpdateRun/example-run: spec.stagedRolloutStrategyName: is required
	// run.yaml:8: ClusterStagedUpdateRun/example-run: spec.resourceSnapshotIndex: must be a string, not the number 1; write "1"
	// run.yaml:9: ClusterStagedUpdateRun/example-run: spec.strategyName: unknown field; known are placementName, resourceSnapshotIndex, stagedRolloutStrategyName, state
}
