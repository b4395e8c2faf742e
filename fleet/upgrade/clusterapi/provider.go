package clusterapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// ControlPlanePool is the name of the pool that stands for the machines of the
// control plane, as far as their image goes. It is described where images are set, see
// [Config]. No other pool can have the name.
const ControlPlanePool = "ControlPlane"

// Config says where the management cluster is and what it does not know itself.
type Config struct {
	// Conn is a connection to the management cluster, Objects lists its
	// MachineDeployments and Machines: what package kube has for both. A list is what the
	// management cluster has, never older than the call. Both are needed.
	Conn    backend.Conn
	Objects snapshot.Source
	// Version is that of Cluster API's kinds: v1beta2, the default, or v1beta1.
	Version string
	// Locate returns where the Cluster of a member is. By default it has the member's
	// name, in namespace default.
	Locate func(placement.Cluster) (namespace, name string, err error)
	// Images say how node images are set. Without them, images are neither described nor
	// changed.
	Images *Images
	// Complete adds what the management cluster does not know to a description: the
	// Versions that a cluster can be given, and what images pools are offered. It may set
	// Region, which is the label topology.kubernetes.io/region of the Cluster otherwise.
	Complete func(context.Context, placement.Cluster, *upgrade.Cluster) error
}

// Provider upgrades the clusters of one management cluster. Its methods may be called
// concurrently.
type Provider struct {
	conn     backend.Conn
	objects  snapshot.Source
	layout   layout
	located  func(placement.Cluster) (namespace, name string, err error)
	images   *Images
	complete func(context.Context, placement.Cluster, *upgrade.Cluster) error
}

var _ upgrade.Provider = (*Provider)(nil)

// New returns a provider. It asks nothing of the management cluster. An error names
// everything that is wrong with the configuration.
func New(c Config) (*Provider, error) {
	p := &Provider{
		conn: c.Conn, objects: c.Objects, layout: layout{cmp.Or(c.Version, v1beta2)},
		located: c.Locate, complete: c.Complete,
	}
	var problems []error
	if c.Conn == nil {
		problems = append(problems, errors.New("field Conn is nil, it must be a connection to the management cluster"))
	}
	if c.Objects == nil {
		problems = append(problems, errors.New("field Objects is nil, it must list what the management cluster has"))
	}
	if p.layout.version != v1beta1 && p.layout.version != v1beta2 {
		problems = append(problems, fmt.Errorf("field Version is %q, it must be %s or %s", c.Version, v1beta2, v1beta1))
	}
	problems = append(problems, c.Images.validate(p.layout))
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("clusterapi: %w: %w", err, backend.ErrPermanent)
	}
	if c.Images != nil {
		images := *c.Images
		p.images = &images
	}
	return p, nil
}

// locate returns where the Cluster of a member is. It checks what the host says: it
// becomes part of paths.
func (p *Provider) locate(c placement.Cluster) (namespace, name string, err error) {
	namespace, name = "default", c.Name
	if p.located != nil {
		if namespace, name, err = p.located(c); err != nil {
			return "", "", err
		}
	}
	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return "", "", fmt.Errorf("its Cluster is %q in namespace %q, both must be names of objects: %w", name, namespace, backend.ErrPermanent)
	}
	return namespace, name, nil
}
