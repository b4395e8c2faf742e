package kubeenv

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"
)

// ForTest starts an environment that ends with the test. It fails the test if the start fails; it
// never skips the test.
func ForTest(t testing.TB) *Env {
	t.Helper()
	e, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// Server returns the server of this name, and starts it at the first call. Concurrent tests get
// the same server. It fails the test if the start fails.
func (e *Env) Server(t testing.TB, name string) *Server {
	t.Helper()
	return e.Servers(t, name)[0]
}

// Servers is Server for several, which start at the same time.
func (e *Env) Servers(t testing.TB, names ...string) []*Server {
	t.Helper()
	// The first test that asks may be over before a server is ready; others need it all the same.
	ctx := context.WithoutCancel(t.Context())
	servers, problems := make([]*Server, len(names)), make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { servers[i], problems[i] = e.obtain(ctx, name) })
	}
	all.Wait()
	if err := errors.Join(problems...); err != nil {
		t.Fatal(err)
	}
	return servers
}

func (e *Env) obtain(ctx context.Context, name string) (*Server, error) {
	op, _, err := e.opening(name)
	if err != nil {
		return nil, err
	}
	return op.open(ctx, e, name, ServerOptions{})
}

// Shared is an environment for all tests of a package: it is started when the first test asks for
// it and ends when Run does. The zero value is ready. It may be used by several tests at once.
type Shared struct {
	once sync.Once
	mu   sync.Mutex
	runs bool
	env  *Env
	err  error
}

// Run runs the tests of a package, ends the environment if one was started, and returns the exit
// code for os.Exit. It belongs into TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(clusters.Run(m)) }
func (s *Shared) Run(m interface{ Run() int }) int {
	s.mu.Lock()
	s.runs = true
	s.mu.Unlock()
	if err := widen(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	// A later call must not start an environment that is never stopped.
	s.once.Do(func() { s.err = errors.New("kubeenv: the tests are over") })
	if s.env == nil {
		return code
	}
	if err := s.env.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// atOnce is the number of parallel tests that run at the same time if -parallel is not set. They
// wait for servers more than they compute, so that it is more than most machines have processors.
const atOnce = "5"

// widen sets -parallel if it was not set.
func widen() error {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if asked {
		return nil
	}
	if err := flag.Set("test.parallel", atOnce); err != nil {
		return fmt.Errorf("kubeenv: parallel tests: %w", err)
	}
	return nil
}

// Env returns the environment. It fails the test if the environment cannot start.
func (s *Shared) Env(t testing.TB) *Env {
	t.Helper()
	s.mu.Lock()
	runs := s.runs
	s.mu.Unlock()
	if !runs {
		t.Fatal("kubeenv: nothing would end the shared environment: call its Run in TestMain")
	}
	s.once.Do(func() { s.env, s.err = Start(context.WithoutCancel(t.Context()), Options{}) })
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.env
}

// Server returns the server of this name of the shared environment, which it starts the first
// time it is asked for. Tests must neither stop nor pause it.
func (s *Shared) Server(t testing.TB, name string) *Server {
	t.Helper()
	return s.Env(t).Server(t, name)
}

// tidyTimeout is the maximum wait at the end of a test for a server that may be paused.
const tidyTimeout = 5 * time.Second

// Namespace creates a namespace for a test and returns its name. It deletes the namespace when
// the test ends; only a running controller manager then deletes its content.
func (s *Server) Namespace(t testing.TB) string {
	t.Helper()
	body, err := s.request(t.Context(), http.MethodPost, "/api/v1/namespaces", `{"metadata":{"generateName":"test-"}}`)
	if err != nil {
		t.Fatal(err)
	}
	var created struct{ Metadata struct{ Name string } }
	if err := json.Unmarshal(body, &created); err != nil {
		t.Fatal(err)
	}
	name := created.Metadata.Name
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), tidyTimeout)
		defer cancel()
		// The test may have stopped or paused the server; then there is nothing to tidy up.
		_, _ = s.request(ctx, http.MethodDelete, "/api/v1/namespaces/"+name, "")
	})
	return name
}
