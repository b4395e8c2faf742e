package memory_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// A fleet that is kept in a store is there again when the process is started
// again. With a store on disk it survives that the process is killed.
func ExampleFleet_Keep() {
	ctx, store := context.Background(), memory.NewStore()
	start := func() *memory.Cluster {
		f := memory.NewFleet(placement.Cluster{Name: "east"})
		if err := f.Keep(ctx, store); err != nil {
			fmt.Println(err)
		}
		return f.Cluster("east")
	}
	_, err := start().Conn().Apply(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "default", "name": "app"},
		"data": map[string]any{"level": "info"},
	}}, backend.ApplyOptions{Manager: "slipway/app"})
	if err != nil {
		fmt.Println(err)
	}
	obj, err := start().Get(snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "default", Name: "app"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(obj.Object["data"], "generation", obj.GetGeneration())
	// Output: map[level:info] generation 1
}
