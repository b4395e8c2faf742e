package kube

import (
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
)

// NewMemberClusters returns the inventory of the MemberCluster objects
// (cluster.kubernetes-fleet.io/v1beta1) of a hub: their names, and all their
// labels. The UID is that of the object, so that a MemberCluster that was
// deleted and made again is another cluster; see [KubeSystemUID] for how to say
// which cluster it is. Taints are not looked at. It makes no request.
func NewMemberClusters(cfg *rest.Config, o InventoryOptions) (*Inventory, error) {
	clients, err := newHubClients(cfg)
	if err != nil {
		return nil, err
	}
	resource := schema.GroupVersionResource{Group: "cluster.kubernetes-fleet.io", Version: "v1beta1", Resource: "memberclusters"}
	kind := inventoryKind{name: "MemberCluster", crd: resource.GroupResource().String(), cluster: memberCluster}
	return newInventory(kind, metadataOnly{clients.metadata.Resource(resource)}, o), nil
}

func memberCluster(obj metav1.Object) placement.Cluster {
	return placement.Cluster{Name: obj.GetName(), UID: registrationUID(obj), Labels: obj.GetLabels()}
}

// NewClusterProfiles returns the inventory of the ClusterProfile objects
// (multicluster.x-k8s.io/v1alpha1) of one namespace of a hub. It is one
// namespace because whoever may create a ClusterProfile there adds a cluster to
// the fleet, and because names are unique in it.
//
// A cluster's labels are those of the object, and those properties of its status
// that can be labels, where the object has no label of that key. The UID is as
// in [NewMemberClusters]. Conditions are not looked at: a cluster that is not
// healthy stays in the fleet. It makes no request.
func NewClusterProfiles(cfg *rest.Config, namespace string, o InventoryOptions) (*Inventory, error) {
	clients, err := newHubClients(cfg)
	if err != nil {
		return nil, err
	}
	if err := checkNamespace(namespace); err != nil {
		return nil, err
	}
	resource := schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}
	kind := inventoryKind{name: "ClusterProfile", crd: resource.GroupResource().String(), cluster: profiledCluster}
	return newInventory(kind, wholeObjects{clients.objects.Resource(resource).Namespace(namespace)}, o), nil
}

func profiledCluster(obj metav1.Object) placement.Cluster {
	c := memberCluster(obj)
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return c
	}
	labels := propertyLabels(u)
	maps.Copy(labels, c.Labels)
	if len(labels) > 0 {
		c.Labels = labels
	}
	return c
}

// propertyLabels returns the properties of a ClusterProfile that can be labels.
func propertyLabels(profile *unstructured.Unstructured) map[string]string {
	labels := map[string]string{}
	properties, _, _ := unstructured.NestedSlice(profile.Object, "status", "properties")
	for _, p := range properties {
		m, _ := p.(map[string]any)
		name, _ := m["name"].(string)
		value, isText := m["value"].(string)
		if isText && len(validation.IsQualifiedName(name)) == 0 && len(validation.IsValidLabelValue(value)) == 0 {
			labels[name] = value
		}
	}
	return labels
}

func checkNamespace(namespace string) error {
	if msgs := validation.IsDNS1123Label(namespace); len(msgs) > 0 {
		return fmt.Errorf("the namespace of the ClusterProfiles must be the name of one: %s: %w", msgs[0], backend.ErrPermanent)
	}
	return nil
}
