package kubeenv

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
)

// Controllers returns the default controllers of StartControllerManager: the controllers that
// change a client's view of its own objects.
func Controllers() []string {
	return []string{
		"namespace-controller", "garbage-collector-controller", "serviceaccount-controller", "root-ca-certificate-publisher-controller",
		"clusterrole-aggregation-controller", "deployment-controller", "replicaset-controller", "statefulset-controller",
		"daemonset-controller", "job-controller", "cronjob-controller", "ttl-after-finished-controller",
		"endpointslice-controller", "disruption-controller", "resourcequota-controller",
	}
}

// StartControllerManager starts the controllers of these names for the server, or the result of
// Controllers, and returns after their start. It can be called once per server. The controllers
// keep running while the server is down and reconnect; Env.Close ends them. Nothing runs Pods, so
// that a Deployment becomes available only when a test writes the status of its Pods. Without
// controllers namespaces have no service account and are never emptied, nothing is
// garbage-collected, and the ClusterRoles view, edit and admin, which are aggregated from other
// ClusterRoles, grant nothing.
func (s *Server) StartControllerManager(ctx context.Context, controllers ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.controllers != nil {
		return fmt.Errorf("kubeenv: server %q has a controller manager already", s.name)
	}
	if len(controllers) == 0 {
		controllers = Controllers()
	}
	program, err := Binary("kube-controller-manager")
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.path(adminFile), s.Kubeconfig(), 0o600); err != nil {
		return fmt.Errorf("kubeenv: server %q: %w", s.name, err)
	}
	return s.env.onFreePort("the controllers of server "+s.name, func(port int) (*process, error) {
		return s.runControllers(ctx, port, program, controllers)
	})
}

// runControllers starts the controller manager and waits until it is ready, or has ended.
func (s *Server) runControllers(ctx context.Context, port int, program string, controllers []string) (*process, error) {
	client, err := s.client()
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	p, err := launch("kube-controller-manager "+s.name, s.log("kube-controller-manager"), program, s.controllerArgs(port, controllers)...)
	if err != nil {
		return nil, err
	}
	err = s.env.awaitReady(ctx, p, func(ctx context.Context) error {
		_, err := fetch(ctx, client, http.MethodGet, "https://"+address(port)+"/healthz", "")
		return err
	})
	if err != nil {
		return p, errors.Join(err, p.kill())
	}
	s.controllers = p
	return p, nil
}

func (s *Server) controllerArgs(port int, controllers []string) []string {
	return []string{
		"--kubeconfig=" + s.path(adminFile), "--authentication-kubeconfig=" + s.path(adminFile), "--authorization-kubeconfig=" + s.path(adminFile),
		"--controllers=" + strings.Join(controllers, ","), "--leader-elect=false",
		"--bind-address=" + loopback, fmt.Sprint("--secure-port=", port),
		"--cert-dir=" + s.dir, "--tls-cert-file=" + s.path(certFile), "--tls-private-key-file=" + s.path(keyFile),
		"--service-account-private-key-file=" + s.path(accountFile), "--root-ca-file=" + s.path(caFile),
		"--concurrent-gc-syncs=5", "--profiling=false",
	}
}
