package memory_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// To change a value, read it, decide, and put it at the revision that was read. If another writer
// was faster, read again.
func ExampleNewStore() {
	ctx := context.Background()
	store := memory.NewStore()
	increment := func() error {
		for {
			record, err := store.Get(ctx, "counter")
			if err != nil && !errors.Is(err, backend.ErrNotFound) {
				return err
			}
			n, _ := strconv.Atoi(string(record.Value))
			_, err = store.Put(ctx, "counter", []byte(strconv.Itoa(n+1)), record.Revision)
			if !errors.Is(err, backend.ErrConflict) {
				return err
			}
		}
	}
	fmt.Println(increment(), increment())

	record, err := store.Get(ctx, "counter")
	fmt.Println(string(record.Value), err)
	// Output:
	// <nil> <nil>
	// 2 <nil>
}

// A fleet is an inventory and a dialer. Its members can fail.
func ExampleNewFleet() {
	ctx := context.Background()
	fleet := memory.NewFleet(
		placement.Cluster{Name: "canary", Labels: map[string]string{"env": "canary"}},
		placement.Cluster{Name: "prod"},
	)
	config := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "app", "namespace": "default"},
		"data":     map[string]any{"level": "info"},
	}}
	fleet.SetDown("prod", true)
	for cluster := range fleet.Clusters(ctx) {
		conn, err := fleet.Dial(ctx, cluster)
		if err != nil {
			fmt.Println(err)
			continue
		}
		obj, err := conn.Apply(ctx, config, backend.ApplyOptions{Manager: "slipway/app"})
		fmt.Println(cluster.Name, obj.GetName(), obj.GetGeneration(), err)
	}
	_, err := fleet.Cluster("canary").Get(snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "default", Name: "app"})
	fmt.Println(err)
	// Output:
	// canary app 1 <nil>
	// dial prod: the cluster cannot be reached
	// <nil>
}
