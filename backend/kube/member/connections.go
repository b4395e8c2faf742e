package member

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
)

// connections are the network connections of a transport. [http.Transport.CloseIdleConnections]
// keeps an HTTP/2 connection whose watches are just being cancelled; it would stay until its idle
// timeout. These are closed when the last request ends after close.
type connections struct {
	mu sync.Mutex
	// open has the connections that are not closed.
	open map[*connection]struct{}
	// users is the number of requests whose answers are not read.
	users  int
	closed bool
}

// connection is a network connection that is removed from open when it is closed.
type connection struct {
	net.Conn
	of *connections
}

func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// dial makes a connection, and closes it at once if no request can use it any more.
func (cs *connections) dial(ctx context.Context, dial dialFunc, network, address string) (net.Conn, error) {
	made, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.open == nil {
		cs.open = map[*connection]struct{}{}
	}
	c := &connection{made, cs}
	cs.open[c] = struct{}{}
	cs.tidy()
	return c, nil
}

// close closes the connections as soon as no request uses them.
func (cs *connections) close() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.closed = true
	cs.tidy()
}

// tidy closes the connections if they are not needed any more; cs.mu is locked.
func (cs *connections) tidy() {
	if !cs.closed || cs.users > 0 {
		return
	}
	for c := range cs.open {
		_ = c.Conn.Close() // no request is lost
	}
	clear(cs.open)
}

func (cs *connections) use(n int) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.users += n
	cs.tidy()
}

// used is a transport whose requests count as users of its connections until the bodies of their
// answers are closed.
type used struct {
	next http.RoundTripper
	over *connections
}

// RoundTrip implements [http.RoundTripper].
func (u used) RoundTrip(r *http.Request) (*http.Response, error) {
	u.over.use(1)
	answer, err := u.next.RoundTrip(r)
	if err != nil {
		u.over.use(-1)
		return nil, err
	}
	answer.Body = &body{answer.Body, sync.OnceFunc(func() { u.over.use(-1) })}
	return answer, nil
}

// body is the body of an answer.
type body struct {
	io.ReadCloser
	closed func()
}

func (b *body) Close() error {
	defer b.closed()
	return b.ReadCloser.Close()
}
