package kubeenv

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation"
)

// ServerOptions say how an API server differs from others.
type ServerOptions struct {
	// Args are additional arguments of kube-apiserver. They follow the arguments of the environment,
	// and the last argument wins.
	Args []string
}

// Server is an API server with its own objects, users and authority. It keeps its address and its
// objects when it is restarted. Its methods may be called from several goroutines at once.
type Server struct {
	env  *Env
	name string
	dir  string // keys, certificates, not the logs
	port int
	args []string
	ca   *authority

	admin pair

	mu          sync.Mutex
	process     *process // the last one, which may have ended
	controllers *process // nil if not requested
}

// opening is a server that is started once, by the first caller.
type opening struct {
	once   sync.Once
	server *Server
	err    error
}

// StartServer starts an API server and returns when it is ready, which takes some seconds.
// Servers may be started at the same time. The name is a DNS label that no server of the
// environment had before. The context is for the start alone.
func (e *Env) StartServer(ctx context.Context, name string, o ServerOptions) (*Server, error) {
	op, fresh, err := e.opening(name)
	if err != nil {
		return nil, err
	}
	if !fresh {
		return nil, fmt.Errorf("kubeenv: there is a server %q already", name)
	}
	return op.open(ctx, e, name, o)
}

// opening returns the entry of a server; fresh reports whether this call made it.
func (e *Env) opening(name string) (op *opening, fresh bool, err error) {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return nil, false, fmt.Errorf("kubeenv: the name of a server %q is no DNS label: %s", name, problems[0])
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, false, errors.New("kubeenv: the environment is closed")
	}
	op, known := e.servers[name]
	if !known {
		op = &opening{}
		e.servers[name] = op
	}
	return op, !known, nil
}

// open starts the server unless that was tried before, and says how it went.
func (op *opening) open(ctx context.Context, e *Env, name string, o ServerOptions) (*Server, error) {
	op.once.Do(func() {
		op.server, op.err = e.newServer(name, o)
		if op.err != nil {
			return
		}
		if op.err = op.server.firstStart(ctx); op.err != nil {
			op.err = errors.Join(op.err, op.server.end())
		}
	})
	if op.err != nil {
		return nil, op.err
	}
	return op.server, nil
}

// close prevents the addition of servers and returns the existing ones after all have started.
func (e *Env) close() []*Server {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	var servers []*Server
	for name, op := range e.servers {
		op.once.Do(func() { op.err = fmt.Errorf("kubeenv: server %q: the environment is closed", name) })
		if op.err == nil {
			servers = append(servers, op.server)
		}
	}
	clear(e.servers)
	return servers
}

// newServer makes the directory of a server and all its keys.
func (e *Env) newServer(name string, o ServerOptions) (*Server, error) {
	s := &Server{env: e, name: name, dir: filepath.Join(e.dir, name), args: o.Args}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("kubeenv: server %q: %w", name, err)
	}
	var err error
	if s.ca, err = newAuthority("slipway-kubeenv-" + name); err != nil {
		return nil, fmt.Errorf("kubeenv: authority of server %q: %w", name, err)
	}
	if s.admin, err = s.ca.client("admin", []string{"system:masters"}); err != nil {
		return nil, fmt.Errorf("kubeenv: administrator of server %q: %w", name, err)
	}
	return s, s.writeKeys()
}

// The files of a server in its directory.
const (
	caFile      = "ca.crt"
	certFile    = "tls.crt"
	keyFile     = "tls.key"
	accountFile = "service-accounts.key"
	adminFile   = "admin.kubeconfig"
)

func (s *Server) path(file string) string { return filepath.Join(s.dir, file) }

// writeKeys writes the keys and certificates that the server and its controllers read at their
// start.
func (s *Server) writeKeys() error {
	serving, err := s.ca.server()
	if err != nil {
		return fmt.Errorf("kubeenv: certificate of server %q: %w", s.name, err)
	}
	accounts, err := newKey()
	if err != nil {
		return fmt.Errorf("kubeenv: key of server %q: %w", s.name, err)
	}
	account, err := privatePEM(accounts)
	if err != nil {
		return fmt.Errorf("kubeenv: key of server %q: %w", s.name, err)
	}
	for file, content := range map[string][]byte{caFile: s.ca.pem, certFile: serving.cert, keyFile: serving.key, accountFile: account} {
		if err := os.WriteFile(s.path(file), content, 0o600); err != nil {
			return fmt.Errorf("kubeenv: server %q: %w", s.name, err)
		}
	}
	return nil
}

// firstStart gives the server its port.
func (s *Server) firstStart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.env.onFreePort("server "+s.name, func(port int) (*process, error) {
		s.port = port
		err := s.run(ctx)
		return s.process, err
	})
}

// run starts the process and waits until it is ready.
func (s *Server) run(ctx context.Context) error {
	program, err := Binary("kube-apiserver")
	if err != nil {
		return err
	}
	client, err := s.client()
	if err != nil {
		return err
	}
	p, err := launch("kube-apiserver "+s.name, s.log("kube-apiserver"), program, s.apiServerArgs()...)
	if err != nil {
		return err
	}
	s.process = p
	defer client.CloseIdleConnections()
	return s.env.awaitReady(ctx, p, func(ctx context.Context) error {
		_, err := fetch(ctx, client, http.MethodGet, s.URL()+"/readyz", "")
		return err
	})
}

func (s *Server) log(program string) string {
	return filepath.Join(s.env.dir, s.name+"-"+program+".log")
}

// prefix is the storage prefix of the server in etcd, unique among all environments.
func (s *Server) prefix() string { return "/" + filepath.Base(s.env.dir) + "/" + s.name }

// apiServerArgs name one server's place in the common etcd and its keys. No test waits for the
// endpoints of the API server itself, so nothing reconciles them.
func (s *Server) apiServerArgs() []string {
	args := []string{
		"--etcd-servers=" + s.env.etcdURL, "--etcd-prefix=" + s.prefix(),
		"--bind-address=" + loopback, "--advertise-address=" + loopback, fmt.Sprint("--secure-port=", s.port),
		"--cert-dir=" + s.dir, "--tls-cert-file=" + s.path(certFile), "--tls-private-key-file=" + s.path(keyFile),
		"--client-ca-file=" + s.path(caFile), "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + s.path(accountFile), "--service-account-signing-key-file=" + s.path(accountFile),
		"--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none", "--profiling=false",
	}
	return append(args, s.args...)
}
