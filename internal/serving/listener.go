package serving

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// listener limits the number of open connections.
type listener struct {
	net.Listener
	limits Limits

	mu sync.Mutex
	// open contains the connections in the order of their acceptance.
	open      []*conn
	byAddress map[string]int
}

func newListener(ln net.Listener, limits Limits) *listener {
	return &listener{Listener: ln, limits: limits, byAddress: map[string]int{}}
}

// conn is an accepted connection.
type conn struct {
	net.Conn
	l       *listener
	address string
	// busy reports whether a request is active. The lock of the listener guards it.
	busy bool
	once sync.Once
}

// Accept returns the next connection within the limits.
func (l *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: accepted, l: l, address: addressOf(accepted.RemoteAddr())}
		replaced, fits := l.add(c)
		if replaced != nil {
			_ = replaced.Close()
		}
		if fits {
			return c, nil
		}
		_ = accepted.Close()
	}
}

// addressOf returns the address of a client without its port, or "" if it has none: on a socket
// all clients are one user.
func addressOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return ""
	}
	return host
}

// add adds a connection if it fits. It may replace another connection, and the caller must close
// that one.
func (l *listener) add(c *conn) (replaced *conn, fits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var full, idle bool
	switch {
	case c.address != "" && l.byAddress[c.address] >= l.limits.PerAddress:
		full = true
		replaced, idle = l.oldestIdle(func(o *conn) bool { return o.address == c.address })
	case len(l.open) >= l.limits.Connections:
		full = true
		replaced, idle = l.oldestIdle(func(*conn) bool { return true })
	}
	if full && !idle {
		return nil, false
	}
	if replaced != nil {
		l.remove(replaced)
	}
	l.open = append(l.open, c)
	l.byAddress[c.address]++
	return replaced, true
}

// oldestIdle returns the oldest matching connection without a request.
func (l *listener) oldestIdle(of func(*conn) bool) (*conn, bool) {
	for _, c := range l.open {
		if !c.busy && of(c) {
			return c, true
		}
	}
	return nil, false
}

// remove removes a connection.
func (l *listener) remove(c *conn) {
	for i, o := range l.open {
		if o != c {
			continue
		}
		l.open = append(l.open[:i], l.open[i+1:]...)
		if l.byAddress[c.address]--; l.byAddress[c.address] == 0 {
			delete(l.byAddress, c.address)
		}
		return
	}
}

// state receives from the server whether a connection has a request.
func (l *listener) state(nc net.Conn, s http.ConnState) {
	if t, is := nc.(*tls.Conn); is {
		nc = t.NetConn()
	}
	if c, is := nc.(*conn); is {
		l.mu.Lock()
		c.busy = s == http.StateActive
		l.mu.Unlock()
	}
}

// Close closes the connection and frees its place.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.l.mu.Lock()
		defer c.l.mu.Unlock()
		c.l.remove(c)
	})
	return c.Conn.Close()
}
