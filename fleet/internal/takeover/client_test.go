package takeover

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
)

// Client is the store, the inventory and the dialer of a server in another process. Its methods may
// be called concurrently. Its errors match the same errors of package backend as in the server; if
// the server is unreachable, the error matches none.
type Client struct {
	name string
	http *http.Client
}

var (
	_ backend.Watcher          = (*Client)(nil)
	_ backend.Batcher          = (*Client)(nil)
	_ backend.InventoryWatcher = (*Client)(nil)
	_ backend.Dialer           = (*Client)(nil)
)

// NewClient returns a client of the server that listens on a unix socket. name identifies the
// client to the server and must be unique.
func NewClient(socket, name string) *Client {
	return NewClientOver(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}, name)
}

// NewClientOver is like [NewClient] but uses connections from dial.
func NewClientOver(dial func(context.Context) (net.Conn, error), name string) *Client {
	t := &http.Transport{MaxIdleConnsPerHost: 32, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
	return &Client{name: name, http: &http.Client{Transport: t}}
}

// Close ends the idle connections.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// Get reads a record. See [backend.Store].
func (c *Client) Get(ctx context.Context, key string) (backend.Record, error) {
	p, err := c.ask(ctx, request{Op: opGet, Key: key})
	if err != nil || p.Record == nil {
		return backend.Record{}, err
	}
	return *p.Record, nil
}

// Put writes a record. See [backend.Store].
func (c *Client) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	made, err := c.WriteAll(ctx, []backend.Write{{Key: key, Value: value, Prev: prev}})
	if err != nil || len(made) == 0 {
		return "", err
	}
	return made[0], nil
}

// Delete removes a record. See [backend.Store].
func (c *Client) Delete(ctx context.Context, key string, prev backend.Revision) error {
	_, err := c.WriteAll(ctx, []backend.Write{{Key: key, Prev: prev, Delete: true}})
	return err
}

// WriteAll makes the writes with one request. See [backend.Batcher].
func (c *Client) WriteAll(ctx context.Context, writes []backend.Write) ([]backend.Revision, error) {
	p, err := c.ask(ctx, request{Op: opWrite, Writes: writes})
	return p.Revisions, err
}

// List yields records. See [backend.Store].
func (c *Client) List(ctx context.Context, prefix string) iter.Seq2[backend.Record, error] {
	return each(ctx, c, request{Op: opList, Key: prefix}, func(p reply) *backend.Record { return p.Record })
}

// Watch yields changes. See [backend.Watcher].
func (c *Client) Watch(ctx context.Context, prefix string) iter.Seq2[backend.Change, error] {
	return each(ctx, c, request{Op: opWatch, Key: prefix}, func(p reply) *backend.Change { return p.Change })
}

// Clusters yields the clusters. See [backend.Inventory].
func (c *Client) Clusters(ctx context.Context) iter.Seq2[placement.Cluster, error] {
	return each(ctx, c, request{Op: opClusters}, func(p reply) *placement.Cluster { return p.Cluster })
}

// WatchClusters yields when the inventory has changed. See [backend.InventoryWatcher].
func (c *Client) WatchClusters(ctx context.Context) iter.Seq2[struct{}, error] {
	return each(ctx, c, request{Op: opWatchClusters}, sign)
}

// sign ignores the content of a reply.
func sign(reply) *struct{} { return new(struct{}) }

// each yields the replies to a request until the last one.
func each[T any](ctx context.Context, c *Client, q request, take func(reply) *T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		if err := c.stream(ctx, q, func(p reply) bool {
			got := take(p)
			return got == nil || yield(*got, nil)
		}); err != nil {
			yield(none, err)
		}
	}
}

// stream passes on the replies before the last one while next wants more, and returns the error of
// the last one.
func (c *Client) stream(ctx context.Context, q request, next func(reply) bool) error {
	calling, cancel := context.WithCancel(ctx)
	defer cancel()
	body, err := c.send(calling, q)
	if err != nil {
		return ended(ctx, err)
	}
	defer func() { _ = body.Close() }() // it was only read
	for d := json.NewDecoder(body); ; {
		var p reply
		if err := d.Decode(&p); err != nil {
			return ended(ctx, cut(q, err))
		}
		if p.End {
			return ended(ctx, p.Err.err())
		}
		if !next(p) {
			return nil
		}
	}
}

// ask returns the only reply to a request.
func (c *Client) ask(ctx context.Context, q request) (reply, error) {
	body, err := c.send(ctx, q)
	if err != nil {
		return reply{}, ended(ctx, err)
	}
	defer func() { _ = body.Close() }() // it was only read
	b, err := io.ReadAll(body)
	var p reply
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil || !p.End {
		return reply{}, ended(ctx, cut(q, err))
	}
	return p, p.Err.err()
}

func cut(q request, err error) error {
	return fmt.Errorf("the answer to %q was cut off: %w", q.Op, errors.Join(err, io.ErrUnexpectedEOF))
}

// ended returns the error at the end of a call: ctx's error if ctx has ended.
func ended(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// send sends a request and returns the replies.
func (c *Client) send(ctx context.Context, q request) (io.ReadCloser, error) {
	b, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", q.Op, err, backend.ErrPermanent)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://takeover/", bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	r.Header.Set(clientHeader, c.name)
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("%s: the server answered %s", q.Op, resp.Status)
	}
	return resp.Body, nil
}
