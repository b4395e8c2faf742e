// Package target connects the command to an engine: its own engine on the file of a store, the
// engine of the program that holds that file, a server, or a hub. In each case the verbs use the
// client of package httpapi.
package target

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/backend/kube/inventory"
	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/backend/kube/source"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/backend/postgres"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/hub/hubapi"
	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/internal/secretfile"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// Options are the flags that name a target.
type Options struct {
	*cli.Options
	// Store is the file of a store, or the URL of a database. Clusters is a kubeconfig whose
	// contexts are the clusters, Members a file of MemberClusters that selects and labels them, and
	// Source the context that snapshots are taken from.
	Store, Clusters, Members, Source string
	// Server is the URL of a server, TokenFile the file with the token for it, see secretfile.Open.
	Server, TokenFile string
	// Measures are the flags of a verb that drives runs; other verbs do not set them.
	Measures Measures
	// Connect completes the configuration of an engine with access to clusters; nil uses Clusters
	// and Source.
	Connect func(*fleet.Config) error
	// Create creates a missing file of the store.
	Create bool
	// Scratch uses a store in memory in place of a missing file.
	Scratch bool
	// Name is the engine's name if several may run on the store, Log its log; "" is a random name,
	// and nil no log.
	Name string
	Log  *slog.Logger
	// Queues measures the queues of the engine; nil for no measurements.
	Queues workqueue.MetricsProvider
	// Hub returns the hub in other flags. It is used if neither a store nor a server is named; nil
	// if hubs are not supported.
	Hub func() (*hubapi.Hub, error)
}

// AddFlags adds the flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Store, "store", "", "file of the store, or postgres://… for one in a PostgreSQL database")
	flags.StringVar(&o.Clusters, "clusters", "", "kubeconfig whose contexts are the clusters; each has the label "+inventory.LabelContext+"=NAME of its context")
	flags.StringVar(&o.Members, "cluster-labels", "", "YAML file of MemberCluster objects. Only a context that has the name of one of them is a cluster, with its labels and taints")
	flags.StringVar(&o.Source, "source", "", "context of --clusters with the objects to place: snapshots are taken there. Objects are placed on it only if it is in --cluster-labels")
	flags.StringVar(&o.Server, "server", "", "URL of a server, instead of a store")
	flags.StringVar(&o.TokenFile, "token-file", "", "file with the token for the server; for serve, the file with the tokens that it accepts")
}

// Target is a connected engine. Close releases it.
type Target struct {
	*httpapi.Client
	// Live reports whether an engine may be running there. If no program holds the file, there is
	// none, and none can start while the command has the file open: requests to runs are only
	// recorded.
	Live bool
	// Hub is a hub, whose strategies are named objects; otherwise nil.
	Hub *hubapi.Hub
	// Engine is an engine that is not started, and Store is its store: a file that no other
	// program holds, or the records of a hub. For other targets both are nil, and requests go
	// through Client. A verb may start the engine of a file.
	Engine *fleet.Engine
	Store  backend.Store
	// Identity returns the requester's identity, if there is an engine.
	Identity func(context.Context) (approval.Identity, error)
	Close    func() error
	// unsourced reports that the engine has no source of snapshots.
	unsourced bool
	// unreachable reports that the engine has no clusters.
	unreachable bool
}

// Do calls do with the target, for at most --timeout, and closes it. If readOnly, a store is
// opened read-only.
func (o *Options) Do(ctx context.Context, readOnly bool, do func(context.Context, *Target) error) error {
	if err := o.CheckOutput(); err != nil {
		return err
	}
	return o.Within(ctx, func(ctx context.Context) (err error) {
		t, err := o.Open(ctx, readOnly)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, t.Close()) }()
		return do(ctx, t)
	})
}

// Drive runs an engine while do runs. If store names the file of its store, other commands can
// reach the engine through it; "" is a store in memory. An engine that fails ends the context of
// do, and Drive returns its error.
func Drive(ctx context.Context, e *fleet.Engine, store string, do func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	background, running := errgroup.WithContext(ctx)
	background.Go(func() error { return e.Start(running) })
	if store != "" && !InDatabase(store) {
		background.Go(func() error { return httpapi.Serve(running, e, httpapi.ServeOptions{Store: store}) })
	}
	err := do(running)
	if running.Err() != nil {
		err = context.Cause(running)
	}
	stop()
	_ = background.Wait()
	return err
}

// Open connects to the target; if readOnly, a store is opened read-only.
func (o *Options) Open(ctx context.Context, readOnly bool) (*Target, error) {
	if o.As == "" && len(o.Groups) > 0 {
		return nil, cli.Usagef("--as-group is set without --as")
	}
	if err := CheckStore("--store", o.Store); err != nil {
		return nil, err
	}
	switch {
	case o.Store != "" && o.Server != "":
		return nil, cli.Usagef("--store and --server are both set: want one of them")
	case o.Server != "":
		return o.call(o.Server)
	case InDatabase(o.Store):
		store, err := openDatabase(ctx, o.Store, postgres.Options{ReadOnly: readOnly})
		if err != nil {
			return nil, err
		}
		return o.onStore(store, true)
	case o.Store != "":
		return o.openStore(ctx, readOnly)
	case o.Hub != nil:
		return o.openHub()
	}
	return nil, cli.Usagef("--store is not set: it names the file of the store; --server names a server instead")
}

// maxToken is the greatest size of a token file.
const maxToken = 64 << 10

// call connects to a program at an address.
func (o *Options) call(address string) (*Target, error) {
	c := httpapi.ClientOptions{As: approval.Identity{Name: o.As, Groups: o.Groups}}
	if !strings.HasPrefix(address, "unix:") {
		if o.As != "" {
			return nil, cli.Usagef("--as %s: leave it out, because the server %s takes the identity from the token", o.As, address)
		}
		if o.TokenFile != "" {
			text, err := secretfile.Read(o.TokenFile, maxToken)
			if err != nil {
				return nil, fmt.Errorf("--token-file: %w", err)
			}
			if c.Token = strings.TrimSpace(string(text)); c.Token == "" || strings.ContainsAny(c.Token, " ,\r\n\t") {
				return nil, fmt.Errorf("--token-file %s: want a file with the token and nothing else", o.TokenFile)
			}
		}
	}
	client, err := httpapi.NewClient(address, c)
	if err != nil {
		return nil, cli.UsageError{Err: err}
	}
	return &Target{Client: client, Live: true, Close: func() error { return nil }}, nil
}

// callHolder connects to the program at an address that has the file of the store open. The
// socket is looked up for each connection, because it changes when the program starts again.
func (o *Options) callHolder(address string) (*Target, error) {
	if !strings.HasPrefix(address, "unix:") {
		return o.call(address)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		address, err := httpapi.Find(o.Store)
		if err != nil {
			return nil, err
		}
		return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(address, "unix:"))
	}
	client, err := httpapi.NewClient("http://slipway", httpapi.ClientOptions{
		As: approval.Identity{Name: o.As, Groups: o.Groups}, Server: o.Store, Transport: &http.Transport{DialContext: dial},
	})
	return &Target{Client: client, Live: true, Close: func() error { return nil }}, err
}

// Identity returns the requester in this process: the identity of --as, or the user of the
// system.
func (o *Options) Identity(context.Context) (approval.Identity, error) {
	if o.As == "" {
		return approval.Identity{Name: httpapi.LocalUser()}, nil
	}
	return approval.Identity{Name: o.As, Groups: o.Groups}, nil
}

// openHub makes an API from the objects and the records of a hub.
func (o *Options) openHub() (*Target, error) {
	h, err := o.Hub()
	if err != nil {
		return nil, err
	}
	t := &Target{Live: true, Hub: h, Identity: h.Identity, Close: h.Close}
	t.Engine, t.Store = h.Records()
	handler, err := h.Handler()
	return o.inProcess(t, handler, err)
}

// inProcess connects the client of a target to a handler of this process, unless making the
// handler has failed.
func (o *Options) inProcess(t *Target, h http.Handler, err error) (*Target, error) {
	if err == nil {
		t.Client, err = httpapi.NewClient("http://slipway", httpapi.ClientOptions{Transport: httpapi.InProcess(h), As: approval.Identity{Name: o.As, Groups: o.Groups}})
	}
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

const (
	// busy is the maximum wait for a file that another command has open for a moment, or whose
	// program is about to publish its address.
	busy  = 2 * time.Second
	again = 20 * time.Millisecond
)

// LacksFile reports whether the store is a file that does not exist.
func (o *Options) LacksFile() bool {
	if o.Store == "" || InDatabase(o.Store) || CheckStore("--store", o.Store) != nil {
		return false
	}
	_, err := os.Stat(o.Store)
	return errors.Is(err, fs.ErrNotExist)
}

// scratch is a store in memory for a file that does not exist yet.
type scratch struct{ backend.Store }

func (scratch) Close() error { return nil }

// openStore connects to the program that holds the file of the store, or makes an engine on it,
// which does not run.
func (o *Options) openStore(ctx context.Context, readOnly bool) (*Target, error) {
	if _, err := os.Stat(o.Store); err != nil && (!o.Create && !o.Scratch || !errors.Is(err, fs.ErrNotExist)) {
		return nil, fmt.Errorf("--store %s: %w", o.Store, Plainly(err)) // a verb that would create a file has no store
	}
	if err := notDirectory(o.Store); err != nil {
		return nil, err
	}
	if o.Scratch {
		return o.onStore(scratch{memory.NewStore()}, false)
	}
	for late := time.Now().Add(busy); ; {
		store, err := bolt.Open(o.Store, bolt.Options{ReadOnly: readOnly})
		if err == nil {
			return o.onStore(store, false)
		}
		if !errors.Is(err, bolt.ErrInUse) {
			return nil, NotStore(o.Store, err)
		}
		address, found := httpapi.Find(o.Store)
		if found == nil {
			return o.callHolder(address)
		}
		if time.Now().After(late) {
			if errors.Is(found, fs.ErrNotExist) && !errors.Is(found, httpapi.ErrStale) {
				return nil, fmt.Errorf("%w, by a program that does not serve it", err)
			}
			return nil, fmt.Errorf("%w, and the program that holds it is not reached: %w", err, found)
		}
		if !backoff.Sleep(ctx, again) {
			return nil, ctx.Err()
		}
	}
}

// onStore makes an engine on a store that others may also use.
func (o *Options) onStore(store Store, live bool) (*Target, error) {
	e, err := o.Engine(store)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	h, err := httpapi.NewHandler(e, httpapi.Options{Authenticate: httpapi.Impersonated()})
	return o.inProcess(&Target{
		Engine: e, Store: store, Live: live, Identity: o.Identity, Close: store.Close, unsourced: o.Connect == nil && o.Source == "", unreachable: o.Connect == nil && o.Clusters == "",
	}, h, err)
}

// Engine returns an engine on a store.
func (o *Options) Engine(store backend.Store) (*fleet.Engine, error) {
	cfg := fleet.Config{Store: store, Name: "slipway", Log: o.Log, Queues: o.Queues}
	if InDatabase(o.Store) {
		cfg.Name = o.Name // others may run on it
	}
	connect := o.Connect
	if connect == nil {
		connect = o.kubeconfigs
	}
	if err := errors.Join(o.Measures.Configure(&cfg), connect(&cfg)); err != nil {
		return nil, err
	}
	return fleet.New(cfg)
}

// kubeconfigs connects to clusters by the contexts of a kubeconfig. Without one there are no
// clusters.
func (o *Options) kubeconfigs(c *fleet.Config) (err error) {
	if c.Inventory, err = o.inventory(); err != nil {
		return err
	}
	contexts := member.KubeconfigContexts(o.Clusters, member.Trusted())
	c.Dialer = member.NewDialer(contexts, member.Options{})
	if o.Source == "" {
		c.Source = noSource
		return nil
	}
	cfg, err := contexts(context.Background(), placement.Cluster{Name: o.Source})
	if err != nil {
		return fmt.Errorf("--source %s: %w", o.Source, err)
	}
	c.Source, err = source.New(cfg, source.Options{})
	return err
}

// inventory returns the contexts of the kubeconfig as clusters, without the context of the source.
// A file of --cluster-labels names the contexts that are clusters. Contexts that cannot be clusters
// are warnings.
func (o *Options) inventory() (backend.Inventory, error) {
	if o.Clusters == "" {
		if o.Members != "" {
			return nil, cli.Usagef("--cluster-labels is set without --clusters, which names the kubeconfig of these clusters")
		}
		return noClusters("--clusters is not set: it names the kubeconfig whose contexts are the clusters"), nil
	}
	if _, err := clientcmd.LoadFromFile(o.Clusters); err != nil {
		return nil, fmt.Errorf("--clusters: %w", err)
	}
	contexts := inventory.KubeconfigClusters{Path: o.Clusters}
	if o.Members == "" {
		if o.Source != "" {
			contexts.Except = []string{o.Source}
		}
		contexts.Unusable = o.warnOnce(func(name string) string {
			return fmt.Sprintf("context %s of --clusters %s is not used, because the name of a cluster is a DNS label: kubectl config rename-context %s NAME", name, o.Clusters, name)
		})
		return contexts, nil
	}
	members, err := o.members()
	if err != nil {
		return nil, fmt.Errorf("--cluster-labels: %w", err)
	}
	contexts.Contexts, contexts.Labels = slices.Collect(maps.Keys(members)), map[string]map[string]string{}
	for name, c := range members {
		contexts.Labels[name] = c.Labels
	}
	return backend.InventoryFunc(func(ctx context.Context) iter.Seq2[placement.Cluster, error] {
		return func(yield func(placement.Cluster, error) bool) {
			for c, err := range contexts.Clusters(ctx) {
				c.Taints = members[c.Name].Taints
				if !yield(c, err) {
					return
				}
			}
		}
	}), nil
}

// members reads the file of --cluster-labels.
func (o *Options) members() (map[string]placement.Cluster, error) {
	text, err := os.ReadFile(o.Members)
	if err != nil {
		return nil, err
	}
	docs, err := cli.Objects(o.Members, text)
	if err != nil {
		return nil, err
	}
	if len(docs.Clusters) == 0 {
		return nil, fmt.Errorf("%s: there is no MemberCluster: want one for each context that is a cluster, with the name of the context", o.Members)
	}
	out := map[string]placement.Cluster{}
	for _, c := range docs.Clusters {
		out[c.Name] = c
	}
	return out, nil
}

// warnOnce returns a function that prints the warning about a name the first time it is called
// with that name.
func (o *Options) warnOnce(text func(name string) string) func(name string) {
	var warned sync.Map
	return func(name string) {
		if _, known := warned.LoadOrStore(name, true); !known {
			o.Warn("%s", text(name))
		}
	}
}

// errNoSource reports that no snapshot can be taken.
var errNoSource = errors.New("no cluster to take a snapshot from: add --clusters KUBECONFIG and --source CONTEXT, " +
	"or name a snapshot of slipway get snapshots, by --index or as spec.resourceSnapshotIndex")

// noSource is a source that cannot be read.
var noSource = snapshot.SourceFunc(func(context.Context, snapshot.Query) iter.Seq2[*unstructured.Unstructured, error] {
	return func(yield func(*unstructured.Unstructured, error) bool) { yield(nil, errNoSource) }
})

// CanCapture returns an error if this process has an engine of its own that cannot take snapshots.
func (t *Target) CanCapture() error {
	if t.Engine == nil || t.Hub != nil || !t.unsourced {
		return nil
	}
	return errNoSource
}

// Unreachable reports whether the engine is in this process and has no clusters.
func (t *Target) Unreachable() bool { return t.Engine != nil && t.Hub == nil && t.unreachable }

// noClusters is an inventory that cannot be read.
func noClusters(why string) backend.Inventory {
	return backend.InventoryFunc(func(context.Context) iter.Seq2[placement.Cluster, error] {
		return func(yield func(placement.Cluster, error) bool) { yield(placement.Cluster{}, errors.New(why)) }
	})
}
