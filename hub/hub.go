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

// DefaultNamespace is where a hub keeps what is its own, unless its Config says
// otherwise.
const DefaultNamespace = api.DefaultNamespace

// Config is what a [Hub] is made of. Rest and Dialer are required.
type Config struct {
	// Rest reaches the hub cluster. Watches go over HTTP/2 and all other requests over HTTP/1.1, unless it
	// has a Transport or NextProtos.
	Rest *rest.Config
	// Dialer reaches the members.
	Dialer backend.Dialer

	// Namespace is where the store, the lease and the Secrets of members are;
	// default slipway-system.
	Namespace string
	// Name tells hubs that serve the same cluster apart; default the host's name
	// and a random part.
	Name string
	// Store keeps the engine's state; default: Secrets in Namespace.
	Store backend.Store
	// Inventory lists the members; default: the MemberCluster objects.
	Inventory backend.Inventory
	// Engine has further settings of the engine: Authority, Updater, Prober, Rules,
	// NamespaceRules, Restrictions, Lease, Skew, CallTimeout, Poll, MaxUpdates, Clock.
	// What is named above is ignored in it.
	Engine fleet.Config

	// Compatibility is the version of KubeFleet whose behaviour the hub has where versions differ; default
	// [compat.Default]. The definitions of the hub cluster must be installed for the same one.
	Compatibility compat.Setting

	// Applications, where it is not nil, has the hub serve Application, Workflow and Policy objects, too, of which
	// hub/manifests installs the definitions when asked for. Objects of their group are never placed then.
	Applications *oam.Options

	// LeaseDuration is how long a hub that is not heard of leads on; default 15 s,
	// at least 1 s. It is also the engine's, unless Engine.Lease says another one.
	LeaseDuration time.Duration
	// AlwaysLead leaves out the election: no other hub serves this cluster.
	AlwaysLead bool
	// Collect is for how long changes of what is selected are collected before a
	// snapshot is taken; default 500 ms.
	Collect time.Duration
	// DeleteDeadline is how long a member that cannot be reached holds up the
	// deletion of a placement; default 5 min.
	DeleteDeadline time.Duration
	// Listed is how many clusters a status lists; default 100.
	Listed int
	// NoBindings leaves out the ClusterResourceBindings, one for each cluster of a placement that is in no namespace, by
	// which kubectl fleet draincluster finds what to evict.
	NoBindings bool
	// MemberNamespaces has the hub read the namespaces of members, every 2 minutes and when a placement of namespaces has come or
	// gone, and write them to their MemberClusters. Policies of ResourcePlacements then pick no further member that does not have
	// their namespace.
	MemberNamespaces bool
	// Registry takes the metrics; nil for none.
	Registry prometheus.Registerer
	// Log may be nil.
	Log *slog.Logger
}

// Hub serves the Fleet API. Make one with [New] and call [Hub.Run].
type Hub struct {
	cfg    Config
	client dynamic.Interface
	meta   metadata.Interface
	kube   kubernetes.Interface
	// forbidden is since when the API server refuses to show the definitions, zero if it does not. Only [Hub.Run] has it.
	forbidden time.Time
	// leases is the client of the leader election. It has no limit of requests.
	leases coordination.CoordinationV1Interface
	store  backend.Store
	source *source.Source
	engine *fleet.Engine
	meters *metrics.Meters
	log    *slog.Logger
	// web reaches the hub cluster.
	web *http.Client

	// leading and ready are for the handlers of health.
	leading, ready atomic.Bool
	gaveUp         atomic.Pointer[error]
	// statuses takes what members report while the hub leads.
	statuses atomic.Pointer[reportback.Reconciler]
	// ends are what the hub made and has to close.
	ends []io.Closer
}

// New returns a hub. It asks nothing of the API server yet.
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

// Engine is the engine that the hub drives. What is asked of it directly shows
// in the objects, too. What is declared to it directly has no Owner: that is the
// UID of an object, and a run of an object that is gone is deleted.
func (h *Hub) Engine() *fleet.Engine { return h.engine }

// report takes in what objects say of themselves on a member. What comes before the hub serves is reported again when the engine
// begins to watch, which it does with the hub.
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

// connect makes the clients, and what is made of them unless the host has its own.
func (h *Hub) connect() error {
	config := rest.CopyConfig(h.cfg.Rest)
	if config.UserAgent == "" {
		config.UserAgent = "slipway-hub"
	}
	if config.QPS == 0 && config.RateLimiter == nil {
		config.QPS, config.Burst = requestsPerSecond, 2*requestsPerSecond
	}
	var err error
	if h.web, err = kubehttp.ClientFor(config); err != nil {
		return fmt.Errorf("hub: Config.Rest: %w", err)
	}
	if h.client, err = dynamic.NewForConfigAndClient(config, h.web); err != nil {
		return fmt.Errorf("hub: Config.Rest: %w", err)
	}
	if h.meta, err = kubehttp.Metadata(config, h.web); err != nil {
		return fmt.Errorf("hub: Config.Rest: %w", err)
	}
	if h.kube, err = kubernetes.NewForConfigAndClient(config, h.web); err != nil {
		return fmt.Errorf("hub: Config.Rest: %w", err)
	}
	// Other requests must not delay a renewal, because a leader that cannot renew its lease stops.
	unlimited := rest.CopyConfig(config)
	unlimited.QPS, unlimited.RateLimiter = -1, nil
	leases, err := coordination.NewForConfigAndClient(unlimited, h.web)
	if err != nil {
		return fmt.Errorf("hub: Config.Rest: %w", err)
	}
	h.leases = leases
	return h.connectSeams(config)
}

// requestsPerSecond is what the hub allows itself towards the hub cluster; client-go's
// default of 5 is made for people.
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

// close ends what the hub watches, and the connections to the hub cluster that nothing uses any more: they would stay
// for the 90 seconds after which a transport closes them.
func (h *Hub) close() {
	for _, c := range h.ends {
		if err := c.Close(); err != nil {
			h.log.Warn("closing", "error", err)
		}
	}
	h.web.CloseIdleConnections()
}
