package kubeenv

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Options configure an environment.
type Options struct {
	// Dir is the directory in which the environment creates its own directory for data and logs;
	// empty means the directory for temporary files. Close removes the environment's directory.
	Dir string
	// StartTimeout is the maximum time until a program is ready. 0 means two minutes.
	StartTimeout time.Duration
}

// defaultStartTimeout is much longer than the five seconds on an idle machine, because some
// machines run many tests at the same time.
const defaultStartTimeout = 2 * time.Minute

// Env is one etcd and the API servers that keep their objects in it. Its methods may be called from
// several goroutines at once.
type Env struct {
	dir     string
	lock    *os.File // of dir
	timeout time.Duration
	etcd    *process
	etcdURL string

	// freePort is where ports come from.
	freePort func() (int, error)

	mu      sync.Mutex
	closed  bool
	servers map[string]*opening
}

// Start starts an etcd. The context is for the start alone; Close ends the environment. It does
// not survive this process, on Linux not even when that is killed; the directory does then, until
// the next environment is started.
func Start(ctx context.Context, o Options) (*Env, error) {
	dir, lock, err := newDirectory(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("kubeenv: directory of the environment: %w", err)
	}
	e := &Env{dir: dir, lock: lock, timeout: o.StartTimeout, freePort: freePort, servers: map[string]*opening{}}
	if e.timeout == 0 {
		e.timeout = defaultStartTimeout
	}
	if err := e.startEtcd(ctx); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// Dir returns the directory of the environment: the logs of its programs are there, as <name>.log.
func (e *Env) Dir() string { return e.dir }

func (e *Env) startEtcd(ctx context.Context) error {
	program, err := Binary("etcd")
	if err != nil {
		return err
	}
	return e.onFreePort("etcd", func(port int) (*process, error) {
		peer, err := e.freePort()
		if err != nil {
			return nil, err
		}
		e.etcdURL = "http://" + address(port)
		if e.etcd, err = launch("etcd", filepath.Join(e.dir, "etcd.log"), program, e.etcdArgs(peer)...); err != nil {
			return nil, err
		}
		return e.etcd, e.awaitReady(ctx, e.etcd, e.etcdHealth)
	})
}

// onFreePort starts a program on a free port, and tries another if the port was taken before the
// program listened.
func (e *Env) onFreePort(what string, start func(port int) (*process, error)) error {
	var taken error
	for range portTries {
		port, err := e.freePort()
		if err != nil {
			return fmt.Errorf("kubeenv: no port for %s: %w", what, err)
		}
		p, err := start(port)
		if err == nil || p == nil || !p.addressTaken() {
			return err
		}
		taken = err
	}
	return taken
}

// etcdArgs make etcd fast and unsafe if the machine loses power, because no test depends on that.
func (e *Env) etcdArgs(peer int) []string {
	peerURL := "http://" + address(peer)
	return []string{
		"--name=etcd", "--data-dir=" + filepath.Join(e.dir, "etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=" + e.etcdURL, "--advertise-client-urls=" + e.etcdURL,
		"--listen-peer-urls=" + peerURL, "--initial-advertise-peer-urls=" + peerURL, "--initial-cluster=etcd=" + peerURL,
	}
}

func (e *Env) etcdHealth(ctx context.Context) error {
	// A connection that is kept would outlive the start.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	_, err := fetch(ctx, client, http.MethodGet, e.etcdURL+"/health", "")
	return err
}

// awaitReady waits for a program as long as the options and the context allow.
func (e *Env) awaitReady(ctx context.Context, p *process, probe func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	return p.await(ctx, probe)
}

// Close kills everything that runs and removes all data and logs. Closing twice does nothing.
func (e *Env) Close() error {
	var problems []error
	for _, s := range e.close() {
		problems = append(problems, s.end())
	}
	if e.etcd != nil {
		problems = append(problems, e.etcd.kill())
	}
	problems = append(problems, os.RemoveAll(e.dir))
	if err := e.lock.Close(); !errors.Is(err, os.ErrClosed) {
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}
