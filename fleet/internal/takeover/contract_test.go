package takeover

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/backendtest"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/placement"
)

// pipes is a network within the process, so that tests can use synthetic time.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// connect offers cfg until the test ends and returns a client of it.
func connect(t *testing.T, cfg Config) *Client {
	t.Helper()
	l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	serve(t, cfg, l)
	c := NewClientOver(l.dial, "one")
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// serve offers cfg on l until the test ends.
func serve(t *testing.T, cfg Config, l net.Listener) {
	t.Helper()
	s := NewServer(cfg)
	h := &http.Server{Handler: s}
	done := make(chan error, 1)
	go func() { done <- h.Serve(l) }()
	t.Cleanup(func() {
		if err := errors.Join(h.Close(), s.Close()); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}

// A store, a connection, an inventory and a dialer keep their contracts over a network.
func TestTheClientKeepsTheContracts(t *testing.T) {
	t.Parallel()
	keep(t, "store", backendtest.StoreCases(), func(t *testing.T) backend.Store {
		return connect(t, Config{Store: memory.NewStore()})
	})
	keep(t, "conn", backendtest.ConnCases(), func(t *testing.T) backend.Conn {
		one := placement.Cluster{Name: "one"}
		conn, err := connect(t, Config{Dialer: memory.NewFleet(one)}).Dial(t.Context(), one)
		if err != nil {
			t.Fatal(err)
		}
		return conn
	})
	t.Run("fleet", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			east := placement.Cluster{Name: "east", Labels: map[string]string{"env": "prod"}}
			fleet := memory.NewFleet(placement.Cluster{Name: "west", UID: "u"}, east)
			c := connect(t, Config{Inventory: fleet, Dialer: fleet})
			backendtest.TestInventory(t, c, east, placement.Cluster{Name: "west", UID: "u"})
			if err := backendtest.CheckDialer(t.Context(), c, east); err != nil {
				t.Error(err)
			}
		})
	})
}

// keep runs each case on a new value from open.
func keep[T any](t *testing.T, name string, cases []backendtest.Case[T], open func(*testing.T) T) {
	t.Helper()
	for _, c := range cases {
		t.Run(name+"/"+c.Name, func(t *testing.T) {
			if err := c.Run(t.Context(), open(t)); err != nil {
				t.Errorf("%v (%s)", err, c.Sentence)
			}
		})
	}
}

// Several writes are one request, and the server reports each of them.
func TestEveryWriteIsReported(t *testing.T) {
	var seen []string
	c := connect(t, Config{Store: memory.NewStore(), Seen: func(w Write) {
		seen = append(seen, fmt.Sprint(w.Client, " ", w.Op, " ", w.Key, " ", w.Epoch(), " ", errors.Is(w.Err, backend.ErrConflict)))
	}})
	made, err := c.WriteAll(t.Context(), []backend.Write{
		{Key: "run/a", Value: []byte(`{"lease":{"epoch":7}}`)}, {Key: "run/a"}, {Key: "run/b"},
	})
	if len(made) != 1 || !errors.Is(err, backend.ErrConflict) {
		t.Errorf("%q, %v", made, err)
	}
	if want := "[one put run/a 7 false one put run/a 0 true]"; fmt.Sprint(seen) != want {
		t.Errorf("told %v, want %v", seen, want)
	}
}

// A write that waits in the server ends when its client cancels it.
func TestAWriteEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	c := connect(t, Config{Store: memory.NewStore(), Before: func(ctx context.Context, _ Write) {
		cancel()
		<-ctx.Done()
		ended <- ctx.Err()
	}})
	if _, err := c.Put(ctx, "a", nil, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the server was told %v", err)
	}
}

// An unreachable server is a transient error, and a service that is not offered a permanent one.
func TestAServerThatIsGoneIsTransient(t *testing.T) {
	gone := NewClient(filepath.Join(t.TempDir(), "s"), "one")
	_, err := gone.Get(t.Context(), "a")
	if !errors.Is(err, fs.ErrNotExist) || errors.Is(err, backend.ErrNotFound) || errors.Is(err, backend.ErrPermanent) {
		t.Error(err)
	}
	nothing := connect(t, Config{})
	_, err = nothing.Get(t.Context(), "a")
	_, dial := nothing.Dial(t.Context(), placement.Cluster{Name: "one"})
	for c, list := range nothing.Clusters(t.Context()) {
		if !errors.Is(list, backend.ErrPermanent) {
			t.Errorf("%v, %v", c, list)
		}
	}
	if !errors.Is(err, backend.ErrPermanent) || !errors.Is(dial, backend.ErrPermanent) {
		t.Errorf("%v, %v", err, dial)
	}
}
