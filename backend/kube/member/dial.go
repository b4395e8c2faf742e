package member

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/internal/api"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// ConfigFunc returns the client configuration for the API server of a cluster. If it does not
// know the cluster, the error is ErrNotFound. The caller owns the configuration. See
// [KubeconfigDirectory], [KubeconfigSecrets] and [KubeconfigContexts].
type ConfigFunc func(ctx context.Context, c placement.Cluster) (*rest.Config, error)

// NewDialer returns a dialer that connects by the configurations of configs. It calls configs at
// each Dial, so that changed credentials and addresses are used from the next connection on; the
// engine dials again after a transient error, for example after rejected credentials.
//
// If the inventory knows the UID of a cluster, see [placement.Cluster], it must be the UID of the
// cluster's namespace kube-system. Dial compares the two before anything else is sent, and refuses
// another cluster with ErrPermanent: the cluster was recreated under the same name, or the address
// now leads to another cluster. Connections compare again before they write, after each reconnect.
// A cluster with an empty UID is accepted without a check.
func NewDialer(configs ConfigFunc, o Options) backend.Dialer {
	return &dialer{configs: configs, options: o}
}

type dialer struct {
	configs ConfigFunc
	options Options
}

func (d *dialer) Dial(ctx context.Context, c placement.Cluster) (backend.Conn, error) {
	conn, err := d.dial(ctx, c)
	if err != nil {
		return nil, api.Classify("dial", c.Name, err)
	}
	return conn, nil
}

func (d *dialer) dial(ctx context.Context, c placement.Cluster) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	cfg, err := d.configs(ctx, c)
	if err != nil {
		return nil, err
	}
	conn, err := newConn(cfg, d.options)
	if err != nil {
		return nil, err
	}
	conn.pinned = PinnedUID(c.UID)
	if err := conn.recognize(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// recognize verifies that the connection leads to the expected cluster.
func (c *conn) recognize(ctx context.Context) error {
	l, leave := c.client.transports.enter()
	defer leave()
	return c.recognizeOver(ctx, l)
}

// recognizeOver checks once for each network connection that the transport makes, because a new
// connection may lead elsewhere. A transport of the host does not report its connections, and so
// is checked once.
func (c *conn) recognizeOver(ctx context.Context, l *transport) error {
	dials := l.dials.Load()
	if c.pinned == "" || l.recognized.Load() == max(dials, 1) {
		return nil
	}
	id := snapshot.ID{Version: "v1", Kind: "Namespace", Name: "kube-system"}
	ns, err := c.getOver(ctx, l, id)
	switch {
	case isAbsent(err):
		return fmt.Errorf("the address leads to no cluster: there is no namespace kube-system: %w", backend.ErrPermanent)
	case err != nil:
		return api.Classify("get", id.String(), err)
	}
	if got := string(ns.GetUID()); got != c.pinned {
		return fmt.Errorf("the cluster was swapped: its namespace kube-system has uid %s, the inventory says %s; nothing was written: %w", api.Bounded(got), c.pinned, backend.ErrPermanent)
	}
	l.recognized.Store(max(dials, 1))
	return nil
}
