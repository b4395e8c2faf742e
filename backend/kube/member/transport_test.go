package member_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/internal/kubetest"
	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// ways counts the connections of each protocol that a server was asked over.
type ways struct {
	mu   sync.Mutex
	from map[string]map[string]bool
}

func (w *ways) note(r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.from == nil {
		w.from = map[string]map[string]bool{"HTTP/1.1": {}, "HTTP/2.0": {}}
	}
	w.from[r.Proto][r.RemoteAddr] = true
}

func (w *ways) check(t *testing.T, http1, http2 int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.from["HTTP/1.1"]) != http1 || len(w.from["HTTP/2.0"]) != http2 {
		t.Errorf("%d connections of HTTP/1.1 and %d of HTTP/2, want %d and %d", len(w.from["HTTP/1.1"]), len(w.from["HTTP/2.0"]), http1, http2)
	}
}

// TestAConnHasOneConnectionForEachProtocol asks one thing after the other, then many while one is
// not answered, then again one after the other.
func TestAConnHasOneConnectionForEachProtocol(t *testing.T) {
	var seen ways
	held, release := make(chan struct{}), make(chan struct{})
	_, cfg := hostileServer(t, func(w http.ResponseWriter, r *http.Request) {
		seen.note(r)
		if strings.HasSuffix(r.URL.Path, "/held") {
			close(held)
			<-release
		}
		fmt.Fprint(w, prefix+"{}}")
	})
	c, err := member.NewConn(cfg, member.Options{QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	get := func(name string) {
		if _, err := c.Get(t.Context(), settings(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for range 20 {
		get("a")
	}
	seen.check(t, 1, 0)
	var group sync.WaitGroup
	group.Go(func() { get("held") })
	<-held
	for range 20 {
		group.Go(func() { get("a") })
	}
	get("a")
	close(release)
	group.Wait()
	seen.check(t, 1, 1)
	for range 20 {
		get("a")
	}
	seen.check(t, 1, 1)
}

// TestAWatchOfAConnIsOverHTTP2 keeps HTTP/1.1 free for other requests.
func TestAWatchOfAConnIsOverHTTP2(t *testing.T) {
	var watched atomic.Value
	_, cfg := hostileServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("watch") {
			watched.CompareAndSwap(nil, r.Proto)
			<-r.Context().Done()
			return
		}
		fmt.Fprint(w, `{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":"7"},"items":[]}`)
	})
	c, err := member.NewConn(cfg, member.Options{QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for range c.(backend.ConnWatcher).Watch(ctx, []snapshot.ID{settings("a")}) {
		}
	}()
	kubetest.Eventually(t, "a watch", func() bool { return watched.Load() != nil })
	if got := watched.Load(); got != "HTTP/2.0" {
		t.Errorf("the watch is over %v", got)
	}
}

// TestAClosedConnHasNoConnections closes a Conn with a watch and a request under way. The request
// is answered, and then no network connection is left, long before the idle timeout of one minute.
func TestAClosedConnHasNoConnections(t *testing.T) {
	var open, watched atomic.Int32
	held, release := make(chan struct{}), make(chan struct{})
	_, cfg := hostileServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Has("watch"):
			watched.Add(1)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case strings.HasSuffix(r.URL.Path, "/configmaps"):
			fmt.Fprint(w, `{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":"7"},"items":[]}`)
		case strings.HasSuffix(r.URL.Path, "/held"):
			close(held)
			<-release
			fmt.Fprint(w, prefix+"{}}")
		default:
			fmt.Fprint(w, prefix+"{}}")
		}
	})
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		open.Add(1)
		return &closing{c, sync.OnceFunc(func() { open.Add(-1) })}, nil
	}
	c, err := member.NewConn(cfg, member.Options{QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for range c.(backend.ConnWatcher).Watch(t.Context(), []snapshot.ID{settings("a")}) {
		}
	}()
	kubetest.Eventually(t, "a watch", func() bool { return watched.Load() > 0 })
	answer := make(chan error, 1)
	go func() {
		_, err := c.Get(t.Context(), settings("held"))
		answer <- err
	}()
	<-held
	if _, err := c.Get(t.Context(), settings("a")); err != nil {
		t.Error(err)
	}
	if n := open.Load(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
	begun := time.Now()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	close(release)
	if err := <-answer; err != nil {
		t.Errorf("the request under way: %v", err)
	}
	kubetest.Eventually(t, "the end of all connections", func() bool { return open.Load() == 0 })
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

// closing is a connection that calls a function when it is closed.
type closing struct {
	net.Conn
	closed func()
}

func (c *closing) Close() error {
	c.closed()
	return c.Conn.Close()
}

// TestT7AClusterIsRecognizedOverEachConnection has an address that leads to another cluster for
// every connection but the first.
func TestT7AClusterIsRecognizedOverEachConnection(t *testing.T) {
	var written atomic.Int32
	var busy atomic.Pointer[chan struct{}]
	held := make(chan struct{}, 1)
	_, cfg := hostileServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/kube-system"):
			uid := map[string]string{"HTTP/1.1": "one", "HTTP/2.0": "two"}[r.Proto]
			fmt.Fprintf(w, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kube-system","uid":%q,"resourceVersion":"7"}}`, uid)
			return
		case r.Method != http.MethodGet:
			written.Add(1)
		}
		if wait := busy.Load(); wait != nil && r.Proto == "HTTP/1.1" {
			held <- struct{}{}
			<-*wait
		}
		fmt.Fprint(w, prefix+"{}}")
	})
	configs := func(context.Context, placement.Cluster) (*rest.Config, error) { return cfg, nil }
	c, err := member.NewDialer(configs, member.Options{QPS: -1}).Dial(t.Context(), placement.Cluster{Name: "a", UID: "one"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	applied(t, c, configMap("default", "a"), backend.Precondition{})
	before, wait := written.Load(), make(chan struct{})
	busy.Store(&wait)
	var group sync.WaitGroup
	group.Go(func() { _, _ = c.Get(t.Context(), settings("a")) })
	<-held
	_, err = c.Apply(t.Context(), configMap("default", "a"), backend.ApplyOptions{Manager: manager})
	close(wait)
	group.Wait()
	if !errors.Is(err, backend.ErrPermanent) || written.Load() != before {
		t.Errorf("the error is %v, after %d writes to another cluster", err, written.Load()-before)
	}
}
