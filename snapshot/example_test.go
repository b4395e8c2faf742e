package snapshot_test

import (
	"context"
	"fmt"

	"github.com/slipway-dev/slipway/snapshot"
)

// A placement selects a namespace with its content, without the fields that the hub's API server
// set.
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

// A webhook would refuse objects of the hub if it were there. In an envelope it
// does nothing until it is placed.
func ExampleCapture_envelope() {
	hub := objects{
		object("v1", "Namespace", "", "test-namespace"),
		object("v1", "ConfigMap", "test-namespace", "test-cm"),
		object("v1", "ConfigMap", "test-namespace", "not-placed"),
		envelope("", "guards", map[string]any{
			"webhook.yaml": object("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", "guard").Object,
		}),
	}
	set, err := snapshot.Capture(context.Background(), hub, []snapshot.Selector{
		{Version: "v1", Kind: "Namespace", Name: "test-namespace", Scope: snapshot.NamespaceWithResourceSelectors},
		{Version: "v1", Kind: "ConfigMap", Name: "test-cm"},
		{Group: "placement.kubernetes-fleet.io", Version: "v1beta1", Kind: "ClusterResourceEnvelope", Name: "guards"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, item := range set.Items {
		fmt.Println(item)
	}
	// Output:
	// Namespace.v1 test-namespace
	// ConfigMap.v1 test-namespace/test-cm
	// ValidatingWebhookConfiguration.v1.admissionregistration.k8s.io guard
}

// A hub that runs its own workloads excludes the claims of its volumes from snapshots.
func ExampleRules() {
	hub := objects{
		object("v1", "Namespace", "", "test-namespace"),
		object("v1", "ConfigMap", "test-namespace", "test-cm"),
		object("v1", "PersistentVolumeClaim", "test-namespace", "data"),
	}
	rules := snapshot.Rules{Never: []snapshot.GroupKind{{Kind: "PersistentVolumeClaim"}}}
	set, err := rules.Capture(context.Background(), hub, []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "test-namespace"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, item := range set.Items {
		fmt.Println(item)
	}
	// Output:
	// Namespace.v1 test-namespace
	// ConfigMap.v1 test-namespace/test-cm
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
