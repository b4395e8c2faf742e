package hub

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/inventory"
	"github.com/slipway-dev/slipway/backend/kube/source"
	"github.com/slipway-dev/slipway/backend/kube/store"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/oam"
	"github.com/slipway-dev/slipway/hub/compat"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/metrics"
	"github.com/slipway-dev/slipway/hub/internal/reportback"
	"github.com/slipway-dev/slipway/internal/kubehttp"
	"github.com/slipway-dev/slipway/snapshot"
)

// DefaultNamespace is the default of Config.Namespace.
const DefaultNamespace = api.DefaultNamespace

// Config holds the settings of a [Hub]. Rest and Dialer are required.
type Config struct {
	// Rest reaches the hub cluster. Watches go over HTTP/2 and all other requests over HTTP/1.1,
	// unless it has a Transport or NextProtos.
	Rest *rest.Config
	// Dialer reaches the members.
	Dialer backend.Dialer

	// Namespace holds the store, the lease and the Secrets of members; default slipway-system.
	Namespace string
	// Name distinguishes hubs that serve the same cluster; default the host's name and a random
	// part.
	Name string
	// Store keeps the engine's state; default: Secrets in Namespace.
	Store backend.Store
	// Inventory lists the members; default: the MemberCluster objects.
	Inventory backend.Inventory
	// Engine has further settings of the engine: Authority, Updater, Prober, Rules,
	// NamespaceRules, Restrictions, Lease, Skew, CallTimeout, Poll, MaxUpdates, Clock. The hub ignores
	// the fields of Engine for the settings above.
	Engine fleet.Config

	// Compatibility is the version of KubeFleet whose behaviour the hub has if versions differ;
	// default [compat.Default]. The definitions of the hub cluster must be installed for the same
	// version.
	Compatibility compat.Setting

	// Applications, if not nil, makes the hub serve Application, Workflow and Policy objects,
	// too. hub/manifests installs their definitions if asked. Objects of their group are then
	// never placed.
	Applications *oam.Options

	// LeaseDuration is the time after which another hub replaces a leader that does not renew its
	// lease; default 15 s, at least 1 s. The engine uses it as well, unless Engine.Lease is set.
	LeaseDuration time.Duration
	// AlwaysLead skips the election. With it, no other hub may serve this cluster.
	AlwaysLead bool
	// Waiting is called if the hub waits for the lease of another hub, with the name of that hub;
	// may be nil. If that hub ends without releasing the lease, this hub leads after LeaseDuration.
	Waiting func(holder string)
	// Collect is the time during which changes of the selected objects are collected before a
	// snapshot is taken; default 500 ms.
	Collect time.Duration
	// DeleteDeadline limits how long an unreachable member delays the deletion of a placement;
	// default 5 min.
	DeleteDeadline time.Duration
	// Listed is the number of clusters that a status lists; default 100.
	Listed int
	// NoBindings omits the ClusterResourceBindings, one for each cluster of a placement without a
	// namespace. kubectl fleet draincluster needs them to find the placements to evict.
	NoBindings bool
	// MemberNamespaces makes the hub read the namespaces of members and write them to their
	// MemberClusters, every 2 minutes and after a placement of namespaces was added or removed.
	// Policies of ResourcePlacements then pick no further member that lacks their namespace.
	MemberNamespaces bool
	// Registry registers the metrics; nil for none.
	Registry prometheus.Registerer
	// Log may be nil.
	Log *slog.Logger
}

// Hub serves the Fleet API. Make a Hub with [New] and call [Hub.Run].
type Hub struct {
	cfg Config
	clients
	store  backend.Store
	source *source.Source
	engine *fleet.Engine
	meters *metrics.Meters
	log    *slog.Logger

	// leading and ready are read by the health handlers.
	leading, ready atomic.Bool
	failure        atomic.Pointer[error]
	// statuses receives the reports of members while the hub leads, otherwise nil.
	statuses atomic.Pointer[reportback.Reconciler]
	// ends are the store, inventory and source that the hub made and must close.
	ends []io.Closer
}

// clients are the clients of the hub cluster.
type clients struct {
	// web is the client that the others use.
	web    *http.Client
	client dynamic.Interface
	meta   metadata.Interface
	kube   kubernetes.Interface
	// leases is the client of the leader election. It has no rate limit.
	leases coordination.CoordinationV1Interface
}

// New returns a hub. It sends no request to the API server.
func New(cfg Config) (*Hub, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.defaults()
	h := &Hub{cfg: cfg, store: cfg.Store, log: cfg.Log}
	if err := h.connect(); err != nil {
		return nil, err
	}
	if cfg.Dialer != nil {
		h.cfg.Dialer = &identityChecker{next: cfg.Dialer, store: h.store}
	}
	ec := cfg.Engine
	ec.Store, ec.Inventory, ec.Dialer, ec.Source = h.store, h.cfg.Inventory, h.cfg.Dialer, &filteredSource{h.source, h.cfg.Namespace}
	ec.Name, ec.Log, ec.RollbackName, ec.Reported = cfg.Name, cfg.Log, api.RollbackName, h.report
	if ec.Lease == 0 {
		ec.Lease = cfg.LeaseDuration
	}
	var err error
	if h.engine, err = fleet.New(ec); err != nil {
		return nil, err
	}
	h.meters, err = metrics.New(cfg.Registry)
	return h, err
}

// Engine returns the engine that the hub drives. Commands sent to it directly show in the
// objects, too. The Owner of a placement or a run is the UID of its object; placements and runs
// that were declared to the engine directly have none. A run whose object is gone is deleted.
func (h *Hub) Engine() *fleet.Engine { return h.engine }

// report receives the status that an object on a member reports. Reports before the hub serves
// are dropped: the engine begins to watch with the hub, and then it reports them again.
func (h *Hub) report(report apply.StatusReport) {
	if statuses := h.statuses.Load(); statuses != nil {
		statuses.Receive(report)
	}
}

func (c *Config) check() error {
	var errs []error
	if c.Rest == nil {
		errs = append(errs, errors.New("hub: Config.Rest is missing: it reaches the hub cluster"))
	}
	if c.Dialer == nil && c.Engine.Updater == nil {
		errs = append(errs, errors.New("hub: Config.Dialer is missing: it reaches the members"))
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"Collect", c.Collect}, {"DeleteDeadline", c.DeleteDeadline}, {"LeaseDuration", c.LeaseDuration}} {
		if f.value < 0 {
			errs = append(errs, fmt.Errorf("hub: Config.%s is %v: it must not be negative, and 0 is the default", f.name, f.value))
		}
	}
	if _, err := compat.Parse(string(c.Compatibility)); err != nil {
		errs = append(errs, fmt.Errorf("hub: Config.Compatibility: %w", err))
	}
	if c.LeaseDuration > 0 && c.LeaseDuration < time.Second {
		errs = append(errs, fmt.Errorf("hub: Config.LeaseDuration is %v: it must be at least 1s", c.LeaseDuration))
	}
	if c.Listed < 0 {
		errs = append(errs, fmt.Errorf("hub: Config.Listed is %d: it must not be negative, and 0 is the default", c.Listed))
	}
	return errors.Join(errs...)
}

func (c *Config) defaults() {
	if c.Namespace == "" {
		c.Namespace = DefaultNamespace
	}
	if c.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "hub"
		}
		c.Name = host + "-" + strings.ToLower(rand.Text()[:8])
	}
	c.Compatibility = c.Compatibility.OrDefault()
	orDefault(&c.LeaseDuration, 15*time.Second)
	orDefault(&c.Collect, 500*time.Millisecond)
	orDefault(&c.DeleteDeadline, 5*time.Minute)
	if c.Listed == 0 {
		c.Listed = 100
	}
	if c.Applications != nil {
		never := snapshot.GroupKind{Group: api.ApplicationGroup}
		c.Engine.Rules.Never = append(slices.Clone(c.Engine.Rules.Never), never)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

func orDefault(v *time.Duration, def time.Duration) {
	if *v == 0 {
		*v = def
	}
}

// connect makes the clients, and the seams for which the host has none of its own.
func (h *Hub) connect() error {
	config := rest.CopyConfig(h.cfg.Rest)
	if config.UserAgent == "" {
		config.UserAgent = "slipway-hub"
	}
	if config.QPS == 0 && config.RateLimiter == nil {
		config.QPS, config.Burst = requestsPerSecond, 2*requestsPerSecond
	}
	if err := h.clients.connect(config); err != nil {
		return fmt.Errorf("hub: Config.Rest: %w", err)
	}
	return h.connectSeams(config)
}

func (c *clients) connect(config *rest.Config) (err error) {
	if c.web, err = kubehttp.ClientFor(config); err != nil {
		return err
	}
	if c.client, err = dynamic.NewForConfigAndClient(config, c.web); err != nil {
		return err
	}
	if c.meta, err = kubehttp.Metadata(config, c.web); err != nil {
		return err
	}
	if c.kube, err = kubernetes.NewForConfigAndClient(config, c.web); err != nil {
		return err
	}
	// Other requests must not delay a renewal, because a leader that cannot renew its lease stops.
	unlimited := rest.CopyConfig(config)
	unlimited.QPS, unlimited.RateLimiter = -1, nil
	c.leases, err = coordination.NewForConfigAndClient(unlimited, c.web)
	return err
}

// requestsPerSecond is the rate limit for requests to the hub cluster; client-go's default of 5
// suits interactive users.
const requestsPerSecond = 200

func (h *Hub) connectSeams(config *rest.Config) (err error) {
	if h.store == nil {
		records, err := store.New(config, store.Options{Namespace: h.cfg.Namespace})
		if err != nil {
			return err
		}
		h.store, h.ends = records, append(h.ends, records)
	}
	if h.cfg.Inventory == nil {
		members, err := inventory.NewMemberClusters(config, inventory.Options{})
		if err != nil {
			return err
		}
		h.cfg.Inventory, h.ends = members, append(h.ends, members)
	}
	if h.source, err = source.New(config, source.Options{Rules: h.cfg.Engine.Rules}); err == nil {
		h.ends = append(h.ends, h.source)
	}
	return err
}

// close closes the store, inventory and source of the hub, and idle connections to the hub
// cluster, which a transport would keep for 90 seconds.
func (h *Hub) close() {
	for _, c := range h.ends {
		if err := c.Close(); err != nil {
			h.log.Warn("closing", "error", err)
		}
	}
	h.web.CloseIdleConnections()
}
