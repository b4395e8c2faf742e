package migrate

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
)

// onHub is the name of the hub in lists of clusters.
const onHub = "hub"

// Agent is a Deployment or a leader election Lease of a controller of KubeFleet.
type Agent struct {
	// Cluster is the name of the member, or "hub".
	Cluster   string `json:"cluster"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Running   bool   `json:"running"`
	// State says why the agent counts as running or as stopped.
	State string `json:"state"`
}

func (a Agent) String() string {
	return fmt.Sprintf("%s: %s %s/%s: %s", a.Cluster, a.Kind, a.Namespace, a.Name, a.State)
}

// deploymentAgent returns a Deployment of the hub agent or the member agent, in any namespace. It
// recognizes Deployments of KubeFleet's charts by the label app.kubernetes.io/name or by the name
// of the image.
func deploymentAgent(cluster string, d *appsv1.Deployment) (Agent, bool) {
	isAgent := func(name string) bool { return name == "hub-agent" || name == "member-agent" }
	byImage := func(c corev1.Container) bool {
		name, _, _ := strings.Cut(path.Base(c.Image), ":")
		name, _, _ = strings.Cut(name, "@")
		return isAgent(name)
	}
	if !isAgent(d.Labels["app.kubernetes.io/name"]) && !slices.ContainsFunc(d.Spec.Template.Spec.Containers, byImage) {
		return Agent{}, false
	}
	wanted := int32(1)
	if d.Spec.Replicas != nil {
		wanted = *d.Spec.Replicas
	}
	return Agent{
		Cluster: cluster, Kind: "Deployment", Namespace: d.Namespace, Name: d.Name, Running: wanted > 0 || d.Status.Replicas > 0,
		State: fmt.Sprintf("%d replicas of %d", d.Status.Replicas, wanted),
	}, true
}

// leaseAgent returns a Lease of a controller of KubeFleet. The hub agent has the Lease
// 136224848560.hub.fleet.azure.com; the member agent has a Lease of that name and
// 136224848560.member.fleet.azure.com, on the member. The agent counts as running for twice the
// duration of the Lease, because its clock may be behind. An agent that stops does not release its
// Lease; it stops renewing it.
func leaseAgent(cluster string, l *coordinationv1.Lease, now time.Time) (Agent, bool) {
	if !strings.HasSuffix(l.Name, ".hub.fleet.azure.com") && !strings.HasSuffix(l.Name, ".member.fleet.azure.com") {
		return Agent{}, false
	}
	return leaseOf(cluster, l, now), true
}

func leaseOf(cluster string, l *coordinationv1.Lease, now time.Time) Agent {
	a := Agent{Cluster: cluster, Kind: "Lease", Namespace: l.Namespace, Name: l.Name, State: "not held"}
	if l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity == "" || l.Spec.RenewTime == nil {
		return a
	}
	lasts := 15 * time.Second
	if s := l.Spec.LeaseDurationSeconds; s != nil {
		lasts = time.Duration(*s) * time.Second
	}
	age := now.Sub(l.Spec.RenewTime.Time).Round(time.Second)
	a.Running = age < 2*lasts
	a.State = fmt.Sprintf("renewed %s ago by %s", age, *l.Spec.HolderIdentity)
	return a
}
