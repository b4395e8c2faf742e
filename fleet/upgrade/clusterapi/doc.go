// Package clusterapi upgrades clusters that Cluster API manages: it is an
// [upgrade.Provider] that writes to the objects of a management cluster and reads from
// them how far Cluster API is.
//
//	provider, err := clusterapi.New(clusterapi.Config{Conn: conn, Objects: source})
//	updater := upgrade.NewUpdater(provider)
//
// It knows v1beta1 and v1beta2 of Cluster API, control planes of kind
// KubeadmControlPlane and node pools that are MachineDeployments. A topology with
// machine pools, another kind of control plane, and a MachineDeployment of a cluster
// with a topology that is not part of it are refused; machine pools of clusters without
// a topology are not seen.
//
// # What is written
//
// All writes are server-side applies by the manager slipway-upgrade, forced, which carry
// the uid and the resourceVersion of what was read. So a manager that declares the same fields
// elsewhere, for example in a repository that is applied again and again, has to leave
// these out. The last change is kept as JSON in the annotation slipway.dev/upgrade, and
// it is what fences: a change of the same placement with a lower epoch is refused.
//
// A cluster with a topology (spec.topology) is changed at its Cluster, in one write:
//
//	control plane   spec.topology.version, and for each node pool of another version the
//	                annotation topology.cluster.x-k8s.io/defer-upgrade with the value
//	                slipway.dev, below machineDeployments[].metadata
//	node pools      the annotation is taken away from those that get the version; a pool
//	                gets the version of the topology and can get no other
//	image           the variable that [Images] names, as an override of a pool or of
//	                controlPlane
//
// So an upgrade of the control plane only leaves the annotations, and Cluster API says of
// the topology that it is not reconciled. It refuses every other version then, until the
// pools have followed: upgrade them (Full, to the same version) first. A pool that an
// annotation of another manager holds back is refused. While our annotation is there, the
// item of its pool belongs to us too, and is not removed with the declaration of others.
//
// A cluster without a topology is changed at the objects that make its machines:
//
//	control plane   spec.version of the KubeadmControlPlane
//	node pools      spec.template.spec.version of each MachineDeployment
//	image           a copy of the machine template with the image at [Images].Path, whose
//	                name is that of the first template, shortened to 50 characters, and ten
//	                characters that follow from the change's ID; then the reference
//	                to it. Templates that are not referred to any more are left
//
// The Cluster gets the annotation first and all these objects with it, also those that
// the change leaves alone, and their version and reference are applied as they are. A
// change that was cut off in between is asked for again, and goes on.
//
// The machines of a control plane have images too. Where images are set, they are
// described as the pool [ControlPlanePool]; its image is written together with the
// version of the control plane, as images of one version need.
//
// [Images] that were configured are to stay, or the overrides that were applied are given
// up by the next write.
//
// # What is believed
//
// The version of a control plane or a pool is that of its oldest Machine, by spec.version
// and by the version that its kubelet reports. A change has succeeded when the objects
// want what it wants; when their status is about the current generation
// (observedGeneration); when all replicas are up to date, each Machine has the version,
// and none is reported as not up to date; and with a topology, when the condition
// TopologyReconciled is true for the current generation, or is false only because of
// pools that are held back. Before that it is running. It has failed when it is not done
// and Cluster API gave up a Machine that no controller is replacing: one that has failed, is not
// being deleted and has no condition OwnerRemediated that waits.
//
// A cluster is healthy when every control plane and pool has the replicas it wants, all
// ready and available, and each Machine a node.
//
// Whatever is not done although no change of ours is, is an operation of another manager:
// another version or template, machines that are replaced, a paused cluster, and what
// another manager wrote over a change of ours. Nothing is begun meanwhile. Nothing is begun on
// node pools while the control plane is not healthy.
//
// What a management cluster returns is not trusted: fields of other types count as
// missing, at most 500 MachineDeployments and 20,000 Machines belong to a cluster, and
// 256 bytes of a message are quoted.
//
// # Cost and rights
//
// Describe reads the Cluster, its control plane and, with images, the templates, and lists
// the MachineDeployments and Machines of the Cluster's namespace. A namespace for each
// cluster, as is usual, keeps that small. The rights that are needed are
//
//   - apiGroups: [cluster.x-k8s.io]
//     resources: [clusters, machinedeployments]
//     verbs: [get, list, watch, patch]
//   - apiGroups: [cluster.x-k8s.io]
//     resources: [machines]
//     verbs: [get, list, watch]
//   - apiGroups: [controlplane.cluster.x-k8s.io]
//     resources: [kubeadmcontrolplanes]
//     verbs: [get, patch]
//   - apiGroups: [infrastructure.cluster.x-k8s.io] # with images
//     resources: [the machine templates of the provider]
//     verbs: [get, create, patch]
package clusterapi
