package kubeenv

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
)

// URL returns the address of the server without a slash at the end. It does not change at a
// restart.
func (s *Server) URL() string { return "https://" + address(s.port) }

// Config returns a new client configuration of an administrator, which may do everything. Its
// requests are not rate limited.
func (s *Server) Config() *rest.Config { return s.config(s.admin) }

// ConfigFor returns a client configuration of a user in groups, with the rights that RBAC gives
// them. The server takes any name and any groups, and adds the group system:authenticated.
func (s *Server) ConfigFor(user string, groups ...string) *rest.Config {
	return s.config(s.user(user, groups))
}

// Kubeconfig returns Config as a file for kubectl.
func (s *Server) Kubeconfig() []byte { return s.kubeconfig("admin", s.admin) }

// KubeconfigFor returns ConfigFor as a file for kubectl.
func (s *Server) KubeconfigFor(user string, groups ...string) []byte {
	return s.kubeconfig(user, s.user(user, groups))
}

// user returns the credentials of a user. Names that no certificate can hold give some that every
// client refuses, with the reason in their place.
func (s *Server) user(name string, groups []string) pair {
	p, err := s.ca.client(name, groups)
	if err != nil {
		return pair{cert: fmt.Appendf(nil, "kubeenv: no certificate for user %q: %v", name, err), key: []byte("none")}
	}
	return p
}

func (s *Server) config(p pair) *rest.Config {
	return &rest.Config{
		Host:            s.URL(),
		TLSClientConfig: rest.TLSClientConfig{CAData: s.ca.pem, CertData: p.cert, KeyData: p.key},
		QPS:             -1,
	}
}

func (s *Server) kubeconfig(user string, p pair) []byte {
	data := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: %[1]q
contexts:
- name: %[1]q
  context: {cluster: %[1]q, user: %[2]q}
clusters:
- name: %[1]q
  cluster:
    server: %[3]q
    certificate-authority-data: %[4]s
users:
- name: %[2]q
  user:
    client-certificate-data: %[5]s
    client-key-data: %[6]s
`, s.name, user, s.URL(), data(s.ca.pem), data(p.cert), data(p.key))
}

// client returns an administrator's client with connections of its own.
func (s *Server) client() (*http.Client, error) {
	tls, err := rest.TLSConfigFor(s.Config())
	if err != nil {
		return nil, fmt.Errorf("kubeenv: client of server %q: %w", s.name, err)
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: tls}}, nil
}

// ConfigForAccount returns a client configuration of a service account, with a token of the
// server for a day.
func (s *Server) ConfigForAccount(ctx context.Context, namespace, name string) (*rest.Config, error) {
	token, err := s.accountToken(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return &rest.Config{Host: s.URL(), TLSClientConfig: rest.TLSClientConfig{CAData: s.ca.pem}, BearerToken: token, QPS: -1}, nil
}

// KubeconfigForAccount returns ConfigForAccount as a file for kubectl.
func (s *Server) KubeconfigForAccount(ctx context.Context, namespace, name string) ([]byte, error) {
	token, err := s.accountToken(ctx, namespace, name)
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: %[1]q
contexts:
- name: %[1]q
  context: {cluster: %[1]q, user: %[2]q}
clusters:
- name: %[1]q
  cluster:
    server: %[3]q
    certificate-authority-data: %[4]s
users:
- name: %[2]q
  user: {token: %[5]q}
`, s.name, name, s.URL(), base64.StdEncoding.EncodeToString(s.ca.pem), token), err
}

func (s *Server) accountToken(ctx context.Context, namespace, name string) (string, error) {
	path := "/api/v1/namespaces/" + namespace + "/serviceaccounts/" + name + "/token"
	answer, err := s.request(ctx, http.MethodPost, path, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":86400}}`)
	if err != nil {
		return "", err
	}
	var request struct{ Status struct{ Token string } }
	if err := json.Unmarshal(answer, &request); err != nil {
		return "", fmt.Errorf("kubeenv: token of service account %s/%s: %w", namespace, name, err)
	}
	return request.Status.Token, nil
}
