// Package v1beta1 has the Go types of the API group placement.kubernetes-fleet.io: placements, their
// snapshots, staged update runs with strategies and approval requests, overrides, envelopes and
// evictions.
//
// A hub that Slipway serves and a hub of KubeFleet take the same objects. The types, fields and JSON
// names equal those of KubeFleet v0.18; a test compares them with KubeFleet's own module.
// Fields of Slipway alone say so in their comments. The types need k8s.io/apimachinery and
// nothing else, so a controller may use them with any client:
//
//	scheme := runtime.NewScheme()
//	if err := v1beta1.AddToScheme(scheme); err != nil {
//		return err
//	}
//	c, err := client.New(config, client.Options{Scheme: scheme})
//	if err != nil {
//		return err
//	}
//	var run v1beta1.ClusterStagedUpdateRun
//	err = c.Get(ctx, client.ObjectKey{Name: "web-7"}, &run)
//
// The CustomResourceDefinitions in hub/manifests/crds are generated from the types, so each
// comment of a field is also the text of kubectl explain. The version v1 of a definition has the
// same schema; objects are stored as v1beta1.
//
// +kubebuilder:object:generate=true
// +groupName=placement.kubernetes-fleet.io
package v1beta1
