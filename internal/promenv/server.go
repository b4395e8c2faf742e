package promenv

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/kubeenv"
)

const (
	// readyWithin is the maximum duration of a start on a busy machine.
	readyWithin = 60 * time.Second
	// portTries is the number of attempts with other ports if another process takes the free port
	// first.
	portTries = 5
	pollEvery = 50 * time.Millisecond
	tailBytes = 4 << 10
)

// errPort is the error of a server whose port another process took.
var errPort = errors.New("promenv: the port was taken")

// Server is a Prometheus server that ends with its test.
type Server struct {
	// URL is the URL of its API, without credentials.
	URL string
	log string
	cmd *exec.Cmd
	// done is closed when it has ended.
	done chan struct{}
}

// ForTest starts a server that scrapes the exporters at these URLs every second, and returns when
// the server is ready; the first scrapes may still be missing. It fails the test if the server
// cannot start; it never skips the test.
func ForTest(t testing.TB, exporters ...string) *Server {
	t.Helper()
	program, err := kubeenv.Binary("prometheus")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yaml")
	if err := writeConfig(config, exporters); err != nil {
		t.Fatal(err)
	}
	for try := 0; ; try++ {
		s, err := launch(program, dir, config)
		if err == nil {
			t.Cleanup(s.kill)
			err = s.await(t.Context())
		}
		if err == nil {
			return s
		}
		if !errors.Is(err, errPort) || try == portTries {
			t.Fatal(err)
		}
	}
}

// writeConfig writes a configuration as JSON, which is YAML.
func writeConfig(name string, exporters []string) error {
	type static struct {
		Targets []string `json:"targets"`
	}
	type job struct {
		Name    string   `json:"job_name"`
		Path    string   `json:"metrics_path"`
		Scheme  string   `json:"scheme"`
		Targets []static `json:"static_configs"`
	}
	jobs := []job{}
	for i, exporter := range exporters {
		u, err := url.Parse(exporter)
		if err != nil || u.Host == "" {
			return fmt.Errorf("promenv: %q is no URL of an exporter", exporter)
		}
		path := u.Path
		if path == "" {
			path = "/"
		}
		targets := []static{{Targets: []string{u.Host}}}
		jobs = append(jobs, job{Name: fmt.Sprintf("exporter-%d", i), Path: path, Scheme: u.Scheme, Targets: targets})
	}
	b, err := json.Marshal(map[string]any{
		"global":         map[string]string{"scrape_interval": "1s", "scrape_timeout": "1s"},
		"scrape_configs": jobs,
	})
	if err != nil {
		return fmt.Errorf("promenv: configuration: %w", err)
	}
	return os.WriteFile(name, b, 0o600)
}

// launch starts a server on a currently free port.
func launch(program, dir, config string) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("promenv: free port: %w", err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, fmt.Errorf("promenv: free port: %w", err)
	}
	log, err := os.CreateTemp(dir, "log-*")
	if err != nil {
		return nil, fmt.Errorf("promenv: log: %w", err)
	}
	s := &Server{URL: "http://" + address, log: log.Name(), done: make(chan struct{})}
	s.cmd = exec.Command(program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--log.level=warn")
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = dir, log, log
	tieToParent(s.cmd)
	if err := s.start(); err != nil {
		return nil, fmt.Errorf("promenv: start: %w", errors.Join(err, log.Close()))
	}
	return s, log.Close()
}

// start starts the child from a thread that lives as long as the child, because Linux treats the
// end of that thread as the end of the parent.
func (s *Server) start() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := s.cmd.Start()
		started <- err
		if err == nil {
			_ = s.cmd.Wait() // the log says why it ended
			close(s.done)
		}
	}()
	return <-started
}

// kill ends the server and returns when it has ended. Its data belong to a test and need no clean
// shutdown.
func (s *Server) kill() {
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.done
}

// await returns once the server is ready.
func (s *Server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := s.ready(ctx)
		if err == nil && !s.ended() {
			return nil
		}
		select {
		case <-tick.C:
		case <-s.done:
			if bytes.Contains(s.tail(), []byte("address already in use")) {
				return errPort
			}
			return fmt.Errorf("promenv: Prometheus ended before it was ready; the end of its log:\n%s", s.tail())
		case <-ctx.Done():
			return fmt.Errorf("promenv: Prometheus is not ready after %s (%w); the end of its log:\n%s", readyWithin, err, s.tail())
		}
	}
}

// ended reports whether the server has ended; another server may then answer on its port.
func (s *Server) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

func (s *Server) ready(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/-/ready", http.NoBody)
	if err != nil {
		return err
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return errors.Join(err, resp.Body.Close())
}

// tail returns the last lines of the log.
func (s *Server) tail() []byte {
	b, err := os.ReadFile(s.log)
	if err != nil {
		return []byte(err.Error())
	}
	return b[max(0, len(b)-tailBytes):]
}
