package inventory

import (
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/internal/api"
	"github.com/slipway-dev/slipway/backend/kube/internal/watch"
	"github.com/slipway-dev/slipway/placement"
)

// NewMemberClusters returns the inventory of the MemberCluster objects
// (cluster.kubernetes-fleet.io/v1beta1) of a hub: their names, all their labels, the taints of
// their spec, and the properties and resources that their status reports, by KubeFleet's names.
// For example, resourceUsage.available.cpu becomes resources.kubernetes-fleet.io/available-cpu; the
// names for capacity begin with total, and the names for allocatable with allocatable. The UID is
// the UID of the object, so that a MemberCluster that was deleted and recreated is another cluster;
// [KubeSystemUID] pins it to a cluster. If it has the condition NamespaceCollectionSucceeded, which
// reports that namespaces are collected, its namespaces are the names in status.namespaces.
// Otherwise they are unknown.
//
// A MemberCluster that is being deleted is leaving. It is unhealthy if its condition Joined, or
// its member agent's, is False; if one of the conditions Healthy has been False for 5 minutes by
// its lastTransitionTime and the local clock; or if the last heartbeat of its member agent is
// more than 5 minutes old. So a cluster that was never reached accepts nothing new, and a short
// interruption does not change the picks. A condition without a lastTransitionTime counts at
// once. Without conditions and agents a cluster is healthy, because nothing indicates otherwise.
// The function makes no request.
//
// Every cluster has the label [MemberNameLabel] with its name, whatever value the object has for
// it. A new cluster has the label at once, so that no run is planned without it.
func NewMemberClusters(cfg *rest.Config, o Options) (*Inventory, error) {
	clients, err := api.NewHubClients(cfg)
	if err != nil {
		return nil, err
	}
	resource := schema.GroupVersionResource{Group: "cluster.kubernetes-fleet.io", Version: "v1beta1", Resource: "memberclusters"}
	kind := inventoryKind{name: "MemberCluster", crd: resource.GroupResource().String(), read: memberCluster}
	objects := clients.Objects.Resource(resource)
	return newInventory(kind, watch.Of(objects.List, objects.Watch), o), nil
}

// register returns the registration in the metadata of an object.
func register(obj metav1.Object) registration {
	return registration{cluster: placement.Cluster{
		Name: obj.GetName(), UID: registrationUID(obj), Labels: obj.GetLabels(), Leaving: obj.GetDeletionTimestamp() != nil,
	}}
}

// MemberNameLabel is the label by which policies, stages and overrides select a member by its
// name.
const MemberNameLabel = "kubernetes-fleet.io/member-name"

func memberCluster(obj metav1.Object) registration {
	r := register(obj)
	if len(validation.IsValidLabelValue(obj.GetName())) == 0 {
		r.cluster.Labels = maps.Clone(r.cluster.Labels)
		if r.cluster.Labels == nil {
			r.cluster.Labels = map[string]string{}
		}
		r.cluster.Labels[MemberNameLabel] = obj.GetName()
	}
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return r
	}
	r.cluster.Taints = taintsOf(u)
	r.cluster.Properties, r.cluster.Namespaces = memberProperties(u), memberNamespaces(u)
	r.distrustMember(conditionsOf(u.Object, "status", "conditions"))
	for _, agent := range maplists(u.Object, "status", "agentStatus") {
		if agent["type"] == "MemberAgent" {
			r.distrustMember(conditionsOf(agent, "conditions"))
			text, _ := agent["lastReceivedHeartbeat"].(string)
			if at, err := time.Parse(time.RFC3339, text); err == nil {
				r.heartbeat = at
			}
		}
	}
	return r
}

// distrustMember applies a member's conditions to its health: a cluster that has not joined was
// never reached, an unhealthy one may soon recover.
func (r *registration) distrustMember(conditions map[string]map[string]any) {
	r.distrust(conditions, 0, "Joined")
	r.distrust(conditions, problemLasts, "Healthy")
}

// NewClusterProfiles returns the inventory of the ClusterProfile objects
// (multicluster.x-k8s.io/v1alpha1) of one namespace of a hub. It reads only one namespace, because
// names are unique in it, and because everybody with the right to create a ClusterProfile there can
// add clusters to the fleet.
//
// A cluster's labels are the labels of the object and, up to [placement.MaxLabels], the properties
// of its status that can be labels. If a label and a property have the same key, the label has
// precedence. Its properties are the properties of its status that are quantities. The UID is as in
// [NewMemberClusters]. A ClusterProfile that is being deleted is leaving. It is unhealthy if its
// condition Joined is False, or if ControlPlaneHealthy has been False for 5 minutes by its
// lastTransitionTime and the local clock. The function makes no request.
func NewClusterProfiles(cfg *rest.Config, namespace string, o Options) (*Inventory, error) {
	clients, err := api.NewHubClients(cfg)
	if err != nil {
		return nil, err
	}
	if err := checkNamespace(namespace); err != nil {
		return nil, err
	}
	resource := schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}
	kind := inventoryKind{name: "ClusterProfile", crd: resource.GroupResource().String(), read: profiledCluster}
	objects := clients.Objects.Resource(resource).Namespace(namespace)
	return newInventory(kind, watch.Of(objects.List, objects.Watch), o), nil
}

func profiledCluster(obj metav1.Object) registration {
	r := register(obj)
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return r
	}
	labels, measured := maps.Clone(r.cluster.Labels), measurements{}
	if labels == nil {
		labels = map[string]string{}
	}
	for _, p := range maplists(u.Object, "status", "properties") {
		name, _ := p["name"].(string)
		value, isText := p["value"].(string)
		_, own := r.cluster.Labels[name]
		_, again := labels[name]
		if isText && !own && (again || len(labels) < placement.MaxLabels) && len(validation.IsQualifiedName(name)) == 0 && len(validation.IsValidLabelValue(value)) == 0 {
			labels[name] = value
		}
		measured.add(name, p["value"])
	}
	if len(labels) > 0 {
		r.cluster.Labels = labels
	}
	r.cluster.Properties = measured
	conditions := conditionsOf(u.Object, "status", "conditions")
	r.distrust(conditions, 0, "Joined")
	r.distrust(conditions, problemLasts, "ControlPlaneHealthy")
	return r
}

func checkNamespace(namespace string) error {
	if msgs := validation.IsDNS1123Label(namespace); len(msgs) > 0 {
		return fmt.Errorf("the namespace of the ClusterProfiles must be the name of one: %s: %w", msgs[0], backend.ErrPermanent)
	}
	return nil
}
