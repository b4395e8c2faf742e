package store

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/internal/api"
)

// Options configure a [Store]. The zero value is useful.
type Options struct {
	// Namespace is the namespace of the records; default slipway-system. It is created with the
	// first record, if it does not exist.
	Namespace string
	// Timeout limits each request; default the timeout of the rest.Config, or 30 s. A context may
	// limit it further. Watches have no limit.
	Timeout time.Duration
}

// Store keeps records as Secrets in one namespace of an API server. It is a
// [backend.Watcher].
type Store struct {
	api       *secrets
	namespace string
	timeout   time.Duration
}

var _ backend.Watcher = (*Store)(nil)

// New returns a store on the API server that cfg names. It sends nothing before it is used, and
// neither changes nor keeps cfg.
//
// A rate limit of cfg applies. Without one, there is no limit, unlike in client-go, whose default
// is five requests a second: the engine limits its own concurrency, and the server's priority and
// fairness knows its capacity better than a client.
func New(cfg *rest.Config, o Options) (*Store, error) {
	o.Namespace = cmp.Or(o.Namespace, "slipway-system")
	o.Timeout = cmp.Or(max(o.Timeout, 0), max(cfg.Timeout, 0), 30*time.Second)
	if problems := validation.IsDNS1123Label(o.Namespace); len(problems) > 0 {
		return nil, fmt.Errorf("store: Namespace %q: %s: %w", o.Namespace, problems[0], backend.ErrPermanent)
	}
	secrets, err := newSecrets(cfg, o.Namespace)
	if err != nil {
		return nil, fmt.Errorf("store: %w", api.Permanent(err))
	}
	return &Store{api: secrets, namespace: o.Namespace, timeout: o.Timeout}, nil
}

// Close closes idle connections. A store that is used again opens new ones. It always returns
// nil.
func (s *Store) Close() error {
	s.api.web.CloseIdleConnections()
	return nil
}

// EnsureNamespace creates the namespace of the records if it does not exist. A store does so
// itself when it needs the namespace; a host can call it at its start to verify the right to
// create it.
func (s *Store) EnsureNamespace(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return api.Classify("create", "namespace "+s.namespace, s.ensureNamespace(ctx))
}

func (s *Store) ensureNamespace(ctx context.Context) error {
	err := s.api.createNamespace(ctx, s.namespace)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// pingName is a name that no record has.
const pingName = "slipway-ping"

// Ping returns nil if the store can read: the API server and its storage answer, and the
// credentials are valid for the namespace.
func (s *Store) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	_, err := s.api.get(ctx, pingName)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return api.Classify("get", "Secret "+s.namespace+"/"+pingName, err)
}

// Get returns the record of key. See [backend.Store].
func (s *Store) Get(ctx context.Context, key string) (backend.Record, error) {
	secret, err := s.load(ctx, key)
	if err != nil {
		return backend.Record{}, api.ClassifyRecord("get", key, err)
	}
	rec, err := readRecord(secret)
	return rec, api.ClassifyRecord("get", key, err)
}

func (s *Store) load(ctx context.Context, key string) (*corev1.Secret, error) {
	if err := admit(ctx, key, nil); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.api.get(ctx, recordName(key))
}

// admit checks the arguments of a call before any effect.
func admit(ctx context.Context, key string, value []byte) error {
	if err := backend.ValidateKey(key); err != nil {
		return err
	}
	if err := backend.ValidateValue(value); err != nil {
		return err
	}
	return ctx.Err()
}
