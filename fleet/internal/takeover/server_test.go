package takeover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"sync"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
)

// Config holds the services that a [Server] offers. Clients may use the services that are not nil.
type Config struct {
	Store     backend.Store
	Inventory backend.Inventory
	Dialer    backend.Dialer
	// Before is called before every write, also before each write of a batch. It may wait; ctx ends
	// when the client no longer waits. It may be nil.
	Before func(ctx context.Context, w Write)
	// Seen receives every accepted or refused write, in order. It is called by one goroutine at a
	// time and must not use the server. It may be nil.
	Seen func(w Write)
}

// Server handles the requests of a [Client]. It makes one write at a time. It keeps a client's
// connection to a member until the client closes it or opens another one to that cluster, or the
// server is closed.
type Server struct {
	cfg   Config
	order sync.Mutex // one write at a time

	mu    sync.Mutex
	conns map[connKey]backend.Conn
}

// connKey identifies the connection of a client to a cluster.
type connKey struct{ client, cluster, uid string }

var _ http.Handler = (*Server)(nil)

// NewServer returns a server.
func NewServer(cfg Config) *Server {
	return &Server{cfg: cfg, conns: map[connKey]backend.Conn{}}
}

// Close ends the connections to the members.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for key, c := range s.conns {
		errs = append(errs, c.Close())
		delete(s.conns, key)
	}
	return errors.Join(errs...)
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The context of the request ends with its client only after the whole body was read.
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBytes))
	call := call{s: s, ctx: r.Context(), client: r.Header.Get(clientHeader)}
	if err == nil {
		err = json.Unmarshal(b, &call.q)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	enc, out := json.NewEncoder(w), http.NewResponseController(w)
	call.send = func(p reply) bool { return enc.Encode(p) == nil && (p.End || out.Flush() == nil) }
	last, err := call.serve()
	last.End, last.Err = true, faultOf(err)
	call.send(last)
}

// call is a request in progress.
type call struct {
	s      *Server
	ctx    context.Context //nolint:containedctx // lives during one request
	client string
	q      request
	send   func(reply) bool
}

// serve sends all replies except the last one, and returns the last one.
func (c *call) serve() (reply, error) {
	cfg := &c.s.cfg
	switch c.q.Op {
	case opGet, opWrite, opList, opWatch:
		if cfg.Store == nil {
			return reply{}, c.missing()
		}
		return c.onStore(cfg.Store)
	case opClusters, opWatchClusters:
		if cfg.Inventory == nil {
			return reply{}, c.missing()
		}
		return c.onInventory(cfg.Inventory)
	case opDial:
		return c.dial()
	case opClose:
		return reply{}, c.s.keep(c.key(), nil)
	}
	conn, err := c.conn()
	if err != nil {
		return reply{}, err
	}
	return c.onConn(conn)
}

func (c *call) missing() error {
	return fmt.Errorf("%w: the server has nothing to %s", backend.ErrPermanent, c.q.Op)
}

func (c *call) onStore(s backend.Store) (reply, error) {
	switch c.q.Op {
	case opGet:
		rec, err := s.Get(c.ctx, c.q.Key)
		return reply{Record: &rec}, err
	case opWrite:
		return c.write(s)
	case opList:
		return reply{}, forward(c, s.List(c.ctx, c.q.Key), func(r backend.Record) reply { return reply{Record: &r} })
	}
	return reply{}, forward(c, backend.Watch(c.ctx, s, c.q.Key, 0), func(ch backend.Change) reply { return reply{Change: &ch} })
}

func (c *call) onInventory(inv backend.Inventory) (reply, error) {
	if c.q.Op == opClusters {
		return reply{}, forward(c, inv.Clusters(c.ctx), func(cl placement.Cluster) reply { return reply{Cluster: &cl} })
	}
	return reply{}, forward(c, backend.WatchInventory(c.ctx, inv, 0), signal)
}

func signal(struct{}) reply { return reply{} }

// forward sends the values of a sequence and returns its error.
func forward[T any](c *call, seq iter.Seq2[T, error], as func(T) reply) error {
	for v, err := range seq {
		if err != nil {
			return err
		}
		if !c.send(as(v)) {
			return c.ctx.Err()
		}
	}
	return nil
}

func (c *call) key() connKey { return connKey{c.client, c.q.Cluster.Name, c.q.Cluster.UID} }

func (c *call) dial() (reply, error) {
	if c.s.cfg.Dialer == nil {
		return reply{}, c.missing()
	}
	conn, err := c.s.cfg.Dialer.Dial(c.ctx, c.q.Cluster)
	if err != nil {
		return reply{}, err
	}
	return reply{Fencing: backend.FencingOf(conn)}, c.s.keep(c.key(), conn)
}

// keep replaces the connection of a client to a cluster. A nil conn only removes it.
func (s *Server) keep(key connKey, conn backend.Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.conns[key]
	delete(s.conns, key)
	if conn != nil {
		s.conns[key] = conn
	}
	if before == nil {
		return nil
	}
	return before.Close()
}

func (c *call) conn() (backend.Conn, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if conn := c.s.conns[c.key()]; conn != nil {
		return conn, nil
	}
	return nil, &backend.Error{Op: c.q.Op, Object: c.q.Cluster.Name, Err: errClosed}
}
