package snapshot_test

import (
	"context"
	"fmt"

	"github.com/slipway-dev/slipway/snapshot"
)

// A placement selects a namespace; what is in it comes along, without what the
// hub's API server wrote into it.
func ExampleCapture() {
	hub := objects{
		with(object("v1", "Namespace", "", "test-namespace"), "Active", "status", "phase"),
		with(object("v1", "ConfigMap", "test-namespace", "test-cm"), "value1", "data", "key"),
		object("v1", "ConfigMap", "test-namespace", "kube-root-ca.crt"),
	}
	set, err := snapshot.Capture(context.Background(), hub, []snapshot.Selector{
		{Version: "v1", Kind: "Namespace", Name: "test-namespace"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, item := range set.Items {
		fmt.Println(item)
		fmt.Println(string(set.Bodies[i]))
	}
	// Output:
	// Namespace.v1 test-namespace
	// {"apiVersion":"v1","kind":"Namespace","metadata":{"name":"test-namespace"}}
	// ConfigMap.v1 test-namespace/test-cm
	// {"apiVersion":"v1","data":{"key":"value1"},"kind":"ConfigMap","metadata":{"name":"test-cm","namespace":"test-namespace"}}
}

// Two sets are compared by their items alone; no object is read.
func ExampleCompare() {
	capture := func(hub objects) snapshot.Set {
		set, err := snapshot.Capture(context.Background(), hub, []snapshot.Selector{{Version: "v1", Kind: "ConfigMap"}})
		if err != nil {
			fmt.Println(err)
		}
		return set
	}
	before := capture(objects{
		with(object("v1", "ConfigMap", "test-namespace", "test-cm"), "value1", "data", "key"),
		object("v1", "ConfigMap", "test-namespace", "old"),
	})
	after := capture(objects{
		with(object("v1", "ConfigMap", "test-namespace", "test-cm"), "value2", "data", "key"),
		object("v1", "ConfigMap", "test-namespace", "new"),
	})
	changes := snapshot.Compare(before.Items, after.Items)
	fmt.Println("added", changes.Added)
	fmt.Println("removed", changes.Removed)
	fmt.Println("changed", changes.Changed)
	// Output:
	// added [ConfigMap.v1 test-namespace/new]
	// removed [ConfigMap.v1 test-namespace/old]
	// changed [ConfigMap.v1 test-namespace/test-cm]
}
