// Package clusterapi upgrades clusters that Cluster API manages. It is an [upgrade.Provider] that
// writes to the objects of a management cluster, and reads the progress of Cluster API from them.
//
//	provider, err := clusterapi.New(clusterapi.Config{Conn: conn, Objects: source})
//	updater := upgrade.NewUpdater(provider)
//
// It supports v1beta1 and v1beta2 of Cluster API, control planes of kind KubeadmControlPlane, and
// node pools that are MachineDeployments. It refuses a topology with machine pools, another kind of
// control plane, and a MachineDeployment outside the topology of a cluster that has one. It does
// not see machine pools of clusters without a topology.
//
// # Which fields are written
//
// All writes are forced server-side applies by the manager slipway-upgrade, with the uid and the
// resourceVersion that were read as preconditions. So another manager that declares the same
// fields, for example in a repository that is applied again and again, must omit them. The last
// change is kept as JSON in the annotation slipway.dev/upgrade. The annotation is also the fence: a
// change of the same placement with a lower epoch is refused.
//
// A cluster with a topology (spec.topology) is changed at its Cluster, in one write:
//
//	control plane   spec.topology.version, and for each node pool of another version the
//	                annotation topology.cluster.x-k8s.io/defer-upgrade with the value
//	                slipway.dev, below machineDeployments[].metadata
//	node pools      the annotation is removed from the pools that get the version; a pool
//	                can only get the version of the topology
//	image           the variable that [Images] names, as an override of a pool or of
//	                controlPlane
//
// So an upgrade of only the control plane leaves the annotations in place, and Cluster API reports
// that the topology is not reconciled. It then refuses every other version until the pools have
// followed: upgrade them first (Full, to the same version). A pool that an annotation of another
// manager holds back is refused. While our annotation exists, the item of its pool belongs to us,
// too, and remains if other managers no longer declare it.
//
// A cluster without a topology is changed at the objects that create its machines:
//
//	control plane   spec.version of the KubeadmControlPlane
//	node pools      spec.template.spec.version of each MachineDeployment
//	image           a copy of the machine template with the image at [Images].Path; its name
//	                is the name of the first template, shortened to 50 characters, and ten
//	                characters that follow from the change's ID; then the reference to it;
//	                templates without references are not deleted
//
// The Cluster gets the annotation first. Then all these objects get it, even objects that the
// change leaves alone: their version and reference are applied unchanged. A change that was
// interrupted in between is requested again, and continues.
//
// The machines of a control plane have images, too. If images are set, they are described as the
// pool [ControlPlanePool]. Its image is written together with the version of the control plane,
// because images are made for one version.
//
// Do not remove [Images] from the configuration later: the next write would drop the overrides that
// were applied.
//
// # How progress is determined
//
// The version of a control plane or a pool is the version of its oldest Machine, both by
// spec.version and by the version that its kubelet reports. A change has succeeded when all of the
// following hold. The objects want the goal of the change. Their status describes the current
// generation (observedGeneration). All replicas are up to date, each Machine has the version, and
// no Machine is reported as not up to date. With a topology, the condition TopologyReconciled is
// true for the current generation, or is false only because of pools that are held back. Before
// that the change is running. It has failed if it has not succeeded and Cluster API abandoned a
// Machine that no controller is replacing: the Machine has failed, is not being deleted, and has no
// pending condition OwnerRemediated.
//
// A cluster is healthy if every control plane and pool has the replicas it wants, all of them are
// ready and available, and each Machine has a node.
//
// An unfinished rollout that is not ours counts as an operation of another manager: another version
// or template, machines that are being replaced, a paused cluster, and fields that another manager
// wrote over a change of ours. No change begins during such an operation. No change of node pools
// begins while the control plane is not healthy.
//
// Answers of a management cluster are not trusted: fields of unexpected types count as missing, a
// cluster may have at most 500 MachineDeployments and 20,000 Machines, and at most 256 bytes of a
// message are quoted.
//
// # Cost and permissions
//
// Describe reads the Cluster, its control plane and, with images, the templates, and lists the
// MachineDeployments and Machines of the Cluster's namespace. One namespace for each cluster, as is
// usual, keeps that small. The required permissions are
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
