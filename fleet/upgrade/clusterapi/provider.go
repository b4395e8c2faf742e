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

// ControlPlanePool is the name of the pool that represents the machines of the control plane and
// their image. It is described if images are set, see [Config]. No other pool can have this name.
const ControlPlanePool = "ControlPlane"

// Config configures a [Provider].
type Config struct {
	// Conn is a connection to the management cluster. Objects lists its MachineDeployments and
	// Machines. Package kube has both. A list must show the state of the management cluster, never
	// older than the call. Both fields are required.
	Conn    backend.Conn
	Objects snapshot.Source
	// Version is the version of Cluster API's kinds: v1beta2, the default, or v1beta1.
	Version string
	// Locate returns the namespace and the name of a member's Cluster. By default the Cluster has the
	// member's name, in namespace default.
	Locate func(placement.Cluster) (namespace, name string, err error)
	// Images configures how node images are set. Without it, images are neither described nor changed.
	Images *Images
	// Complete adds to a description the fields that the management cluster does not know: the
	// Versions that a cluster is offered, and the images that pools are offered. It may set Region,
	// whose default is the label topology.kubernetes.io/region of the Cluster.
	Complete func(context.Context, placement.Cluster, *upgrade.Cluster) error
}

// Provider upgrades the clusters of one management cluster. Its methods may be called concurrently.
type Provider struct {
	conn     backend.Conn
	objects  snapshot.Source
	layout   layout
	located  func(placement.Cluster) (namespace, name string, err error)
	images   *Images
	complete func(context.Context, placement.Cluster, *upgrade.Cluster) error
}

var _ upgrade.Provider = (*Provider)(nil)

// New returns a provider. It does not call the management cluster. The error lists all errors of
// the configuration.
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

// locate returns the namespace and the name of a member's Cluster. It validates the host's answer,
// because it becomes part of paths.
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
