package member

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/internal/api"
	"github.com/slipway-dev/slipway/backend/kube/internal/watch"
	"github.com/slipway-dev/slipway/snapshot"
)

// errConnClosed is the error of a closed connection.
var errConnClosed = errors.New("the connection is closed")

// conn is a connection to a member cluster.
type conn struct {
	client  *client
	mapper  *mapper
	watches *watch.Shared[scope, watch.NoIndex]
	// fenced reports whether the member has the policies of FenceManifests.
	fenced bool
	// closed is closed by Close.
	closed chan struct{}
	close  func()
	// pinned is the uid of kube-system that the cluster must have, empty for any.
	pinned string
}

var (
	_ backend.ConnWatcher   = (*conn)(nil)
	_ backend.ConnDryRunner = (*conn)(nil)
	_ backend.ConnLister    = (*conn)(nil)
	_ backend.ConnFencer    = (*conn)(nil)
	_ backend.ConnMeasurer  = (*conn)(nil)
)

// NewConn returns a connection to the API server that cfg names. It is a [backend.ConnWatcher], a
// [backend.ConnDryRunner], a [backend.ConnLister], a [backend.ConnMeasurer] and a
// [backend.ConnFencer], see [Options]. It sends nothing before it is used. It neither changes nor
// keeps cfg.
//
// It has its own transport and at most two network connections: an HTTP/1.1 connection, which
// costs both sides less per request, for one request at a time, and an HTTP/2 connection for
// watches and concurrent requests. A server without HTTP/2 gets more HTTP/1.1 connections
// instead. If cfg has a transport, all requests use it.
//
// Addresses, certificates, credentials and wrappers of the transport in cfg are used without
// further checks: the author of cfg decides whether it may run a program or read a file, see
// [Kubeconfig]. If cfg is unusable, or impersonates without a user, which would act as the engine
// itself, the error is ErrPermanent.
func NewConn(cfg *rest.Config, o Options) (backend.Conn, error) {
	c, err := newConn(cfg, o)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func newConn(cfg *rest.Config, o Options) (*conn, error) {
	if err := checkImpersonation(cfg.Impersonate); err != nil {
		return nil, &backend.Error{Op: "dial", Object: cfg.Host, Err: err}
	}
	cl, err := newClient(cfg, o.withDefaults())
	if err != nil {
		return nil, &backend.Error{Op: "dial", Object: cfg.Host, Err: api.Permanent(err)}
	}
	c := &conn{
		client: cl, mapper: newMapper(cl), fenced: o.Fenced, closed: make(chan struct{}),
		watches: &watch.Shared[scope, watch.NoIndex]{Open: cl.openWatch, Patience: watch.Patience},
	}
	c.close = sync.OnceFunc(func() {
		close(c.closed)
		c.watches.Close(errConnClosed)
		cl.close()
	})
	return c, nil
}

// checkImpersonation refuses groups or a uid without a user, because the API server would use the
// caller's own identity, or an anonymous one.
func checkImpersonation(i rest.ImpersonationConfig) error {
	if i.UserName == "" && (i.UID != "" || len(i.Groups) > 0 || len(i.Extra) > 0) {
		return fmt.Errorf("impersonation has a uid, groups or extra values and no user: name the user: %w", backend.ErrPermanent)
	}
	return nil
}

func (c *conn) Get(ctx context.Context, id snapshot.ID) (*unstructured.Unstructured, error) {
	obj, err := c.get(ctx, id)
	if err != nil {
		return nil, failed("get", id, err)
	}
	return obj, nil
}

// get returns an object; its errors are not classified.
func (c *conn) get(ctx context.Context, id snapshot.ID) (*unstructured.Unstructured, error) {
	l, leave := c.client.transports.enter()
	defer leave()
	return c.getOver(ctx, l, id)
}

// getOver is get over a transport that the caller has entered.
func (c *conn) getOver(ctx context.Context, l *transport, id snapshot.ID) (*unstructured.Unstructured, error) {
	at, err := c.locate(ctx, id, readFresh)
	if err != nil {
		return nil, err
	}
	body, err := c.client.over(ctx, l, request{verb: http.MethodGet, path: at.path})
	if err != nil {
		return nil, c.mapper.forgetUnserved(at, err)
	}
	return c.client.limits.object(body)
}

// Fencing returns the fencing by the policies of [FenceManifests], if the member has them. It is
// only eventual: an API server compares no two objects in one step, and its policies see a ledger
// as soon as its own watch does.
func (c *conn) Fencing() backend.Fencing {
	if c.fenced {
		return backend.FencingEventual
	}
	return backend.FencingNone
}

func (c *conn) Close() error {
	c.close()
	return nil
}

// usable returns an error if no call can be made.
func (c *conn) usable(ctx context.Context) error {
	select {
	case <-c.closed:
		return errConnClosed
	default:
		return ctx.Err()
	}
}

// locate returns the location of an object on the API server.
func (c *conn) locate(ctx context.Context, id snapshot.ID, age freshness) (location, error) {
	if err := c.usable(ctx); err != nil {
		return location{}, err
	}
	kind, err := c.mapper.find(ctx, api.GVKOf(id), age)
	if err != nil {
		return location{}, err
	}
	return kind.location(id)
}
