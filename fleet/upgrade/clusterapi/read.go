package clusterapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// Limits of the objects that are read for a cluster: its MachineDeployments, its Machines, and the
// objects of one kind that are listed in its namespace.
const (
	maxPools    = 500
	maxMachines = 20_000
	maxListed   = 200_000
)

// Labels and annotations of Cluster API that are read.
const (
	poolLabel        = "topology.cluster.x-k8s.io/deployment-name"
	deploymentLabel  = "cluster.x-k8s.io/deployment-name"
	controlLabel     = "cluster.x-k8s.io/control-plane"
	regionLabel      = "topology.kubernetes.io/region"
	pausedAnnotation = "cluster.x-k8s.io/paused"
)

// seen is a cluster as the management cluster describes it.
type seen struct {
	layout  layout
	cluster tree
	// topology is spec.topology; nil if the cluster has none.
	topology tree
	control  *nodes
	pools    []*nodes // by name
	// images reports whether images were read. overrides are the images that the topology wants, by
	// pool.
	images    bool
	overrides map[string]string
}

// nodes are the machines of a control plane or a node pool, and the object that creates them.
type nodes struct {
	// name is the name of the pool; [ControlPlanePool] for the control plane.
	name string
	kind string
	// object is nil for a pool of the topology that Cluster API has not created yet.
	object tree
	// version is the Kubernetes version that the object wants. template is the template of its
	// machines, and image the image in that template.
	version  string
	template snapshot.ID
	image    string
	// deferred reports whether an annotation of the topology holds back the upgrade of the pool,
	// foreign that the annotation is not ours.
	deferred, foreign bool
	machines          []machine
}

// machine holds the relevant fields of a Machine.
type machine struct {
	name, version, kubelet string
	// failure is why Cluster API abandoned the machine. outdated reports that it must be replaced.
	failure           string
	leaving, outdated bool
	remedied          bool
}

// read reads a cluster. It reads the Cluster first, so that the Cluster is at least as old as the
// other objects.
func (p *Provider) read(ctx context.Context, c placement.Cluster) (*seen, error) {
	namespace, name, err := p.locate(c)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", c.Name, err)
	}
	s, err := p.readAt(ctx, namespace, name)
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %s %s/%s: %w", c.Name, clusterKind, namespace, name, err)
	}
	return s, nil
}

func (p *Provider) readAt(ctx context.Context, namespace, name string) (*seen, error) {
	cluster, err := p.conn.Get(ctx, p.layout.id(coreGroup, clusterKind, namespace, name))
	if err != nil {
		return nil, err
	}
	s := &seen{layout: p.layout, cluster: cluster.Object, topology: branch(cluster.Object, "spec", "topology"), images: p.images != nil}
	if err := s.supported(); err != nil {
		return nil, err
	}
	if s.control, err = p.readControl(ctx, s, namespace); err != nil {
		return nil, err
	}
	if err := p.readPools(ctx, s, namespace, name); err != nil {
		return nil, err
	}
	if err := p.readMachines(ctx, s, namespace, name); err != nil {
		return nil, err
	}
	return s, p.readImages(ctx, s, namespace)
}

// supported returns an error for clusters that would be upgraded only in part.
func (s *seen) supported() error {
	if len(branches(s.topology, 1, "workers", "machinePools")) > 0 {
		return fmt.Errorf("spec.topology.workers.machinePools: machine pools are not supported, only machineDeployments: %w", backend.ErrPermanent)
	}
	return nil
}

// readControl reads the control plane that the Cluster names.
func (p *Provider) readControl(ctx context.Context, s *seen, namespace string) (*nodes, error) {
	ref := branch(s.cluster, "spec", "controlPlaneRef")
	if ref == nil {
		return nil, errors.New("spec.controlPlaneRef is missing: the control plane is not made yet")
	}
	id, err := p.layout.reference(ref, namespace, p.layout.version)
	if err != nil {
		return nil, fmt.Errorf("spec.controlPlaneRef: %w", err)
	}
	if id.Group != controlGroup || id.Kind != controlKind {
		return nil, fmt.Errorf("spec.controlPlaneRef: kind %s of group %s is not supported, only %s of %s: %w",
			shown(id.Kind), shown(id.Group), controlKind, controlGroup, backend.ErrPermanent)
	}
	id.Version = p.layout.version
	object, err := p.conn.Get(ctx, id)
	if err != nil {
		return nil, transient(err)
	}
	return newNodes(ControlPlanePool, controlKind, object.Object), nil
}

// transient makes a not-found error of a part of a cluster transient, so that it does not look like
// a missing cluster: the part may appear later.
func transient(err error) error {
	if errors.Is(err, backend.ErrNotFound) {
		return fmt.Errorf("not there yet: %v", err)
	}
	return err
}

func newNodes(name, kind string, object tree) *nodes {
	return &nodes{name: name, kind: kind, object: object, version: text(object, versionOf(kind)...)}
}

// readPools reads the MachineDeployments of the cluster, and adds pools of the topology that are
// not created yet.
func (p *Provider) readPools(ctx context.Context, s *seen, namespace, name string) error {
	byName := map[string]*nodes{}
	for obj, err := range p.list(ctx, deploymentKind, namespace, name) {
		if err != nil {
			return err
		}
		pool, err := s.pool(obj)
		if err != nil {
			return err
		}
		if _, twice := byName[pool.name]; twice || len(byName) == maxPools {
			return fmt.Errorf("more than %d MachineDeployments, or two of pool %q: %w", maxPools, pool.name, backend.ErrPermanent)
		}
		byName[pool.name] = pool
	}
	s.addPlanned(byName)
	for _, pool := range byName {
		s.pools = append(s.pools, pool)
	}
	slices.SortFunc(s.pools, func(a, b *nodes) int { return cmp.Compare(a.name, b.name) })
	return nil
}

// pool returns the nodes of a MachineDeployment.
func (s *seen) pool(obj *unstructured.Unstructured) (*nodes, error) {
	if s.topology == nil {
		return newNodes(obj.GetName(), deploymentKind, obj.Object), nil
	}
	name := obj.GetLabels()[poolLabel]
	if name == "" || len(name) > maxText {
		return nil, fmt.Errorf("MachineDeployment %s is not part of the cluster's topology, which is not supported: %w", quoted(obj.Object, "metadata", "name"), backend.ErrPermanent)
	}
	return newNodes(name, deploymentKind, obj.Object), nil
}

// addPlanned adds the pools of a topology that Cluster API has not created yet, and sets for all
// pools whether the topology holds back their upgrade.
func (s *seen) addPlanned(byName map[string]*nodes) {
	held := false
	for _, planned := range branches(s.topology, maxPools, "workers", "machineDeployments") {
		name := text(planned, "name")
		if name == "" {
			continue
		}
		pool := byName[name]
		if pool == nil {
			pool = newNodes(name, deploymentKind, nil)
			byName[name] = pool
		}
		marks := branch(planned, "metadata", "annotations")
		_, holds := marks[holdAnnotation]
		held = held || holds
		value, defers := marks[deferAnnotation]
		pool.deferred = held || defers
		pool.foreign = held || defers && value != deferredByUs
	}
}

// readMachines reads the Machines of the cluster.
func (p *Provider) readMachines(ctx context.Context, s *seen, namespace, name string) error {
	owners := map[string]*nodes{}
	for _, pool := range s.pools {
		owners[text(pool.object, "metadata", "name")] = pool
	}
	seen := 0
	for obj, err := range p.list(ctx, machineKind, namespace, name) {
		if err != nil {
			return err
		}
		if seen++; seen > maxMachines {
			return fmt.Errorf("more than %d Machines: %w", maxMachines, backend.ErrPermanent)
		}
		owner := owners[obj.GetLabels()[deploymentLabel]]
		if _, control := obj.GetLabels()[controlLabel]; control {
			owner = s.control
		}
		if owner != nil {
			owner.machines = append(owner.machines, p.layout.machine(obj))
		}
	}
	return nil
}

func (l layout) machine(obj *unstructured.Unstructured) machine {
	upToDate, remedy := l.condition(obj.Object, "UpToDate"), l.condition(obj.Object, "OwnerRemediated")
	return machine{
		name:     quoted(obj.Object, "metadata", "name"),
		version:  text(obj.Object, "spec", "version"),
		kubelet:  text(obj.Object, "status", "nodeInfo", "kubeletVersion"),
		failure:  l.failure(obj.Object),
		leaving:  obj.GetDeletionTimestamp() != nil,
		outdated: text(upToDate, "status") == "False" && fresh(upToDate, obj.Object),
		remedied: text(remedy, "status") == "False",
	}
}

// list yields the objects of a kind that belong to the cluster.
func (p *Provider) list(ctx context.Context, kind, namespace, cluster string) iter.Seq2[*unstructured.Unstructured, error] {
	return func(yield func(*unstructured.Unstructured, error) bool) {
		q := snapshot.Query{Group: coreGroup, Version: p.layout.version, Kind: kind, Namespace: namespace}
		listed := 0
		for obj, err := range p.objects.Objects(ctx, q) {
			if listed++; err == nil && listed > maxListed {
				err = fmt.Errorf("namespace %s has more than %d objects of kind %s: %w", namespace, maxListed, kind, backend.ErrPermanent)
			}
			if err != nil {
				yield(nil, fmt.Errorf("list of %s: %w", kind, transient(err)))
				return
			}
			if text(obj.Object, "spec", "clusterName") == cluster && obj.GetNamespace() == namespace && !yield(obj, nil) {
				return
			}
		}
	}
}
