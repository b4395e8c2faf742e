package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/demo"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/health"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/fleet/httpapi/access"
	"github.com/slipway-dev/slipway/fleet/metrics"
	"github.com/slipway-dev/slipway/internal/secretfile"
	"github.com/slipway-dev/slipway/internal/serving"
)

// server has the flags of serve about the API.
type server struct {
	listen, cert, key, policy, health string
	// rules is the policy; nil without one.
	rules *access.File
}

// newServe runs an engine on a store, and serves its API.
func newServe(o *options) *cobra.Command {
	var api server
	var play bool
	cmd := &cobra.Command{
		Use: "serve --store STORE", Short: "Run an engine on a store, and answer other commands for it until it is interrupted",
		Example: "  slipway serve --store state.db --clusters fleet.yaml --source hub\n" +
			"  slipway serve --store postgres://db/fleet --clusters fleet.yaml \\\n    --source hub", Args: cli.Arguments(cobra.NoArgs),
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if err := o.checkServe(play); err != nil {
			return err
		}
		o.target.Log, o.target.Name = o.Logger(), engineName()
		serve, err := api.options(o)
		if err != nil {
			return err
		}
		registry := prometheus.NewRegistry()
		o.target.Queues = metrics.Queues(registry)
		store, err := target.OpenStore(cmd.Context(), o.target.Store, bolt.Options{}, o.target.Log)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		if play {
			o.target.Connect = demo.Connect
		}
		e, err := o.target.Engine(store)
		if err != nil {
			return err
		}
		registry.MustRegister(metrics.New(e))
		both, ctx := errgroup.WithContext(cmd.Context())
		both.Go(func() error { return e.Start(ctx) })
		if api.rules != nil {
			both.Go(func() error { api.rules.Follow(ctx, o.target.Log); return nil })
		}
		if api.health != "" {
			both.Go(func() error { return serveHealth(ctx, o, api.health, store, registry) })
		}
		if target.InDatabase(o.target.Store) && api.listen == onSocket {
			_ = o.Said("store/database: the engine %s runs", o.target.Name)
		} else {
			both.Go(func() error { return httpapi.Serve(ctx, e, serve) })
		}
		if err := both.Wait(); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil // it was interrupted
	}
	o.target.Measures.AddFlags(cmd.Flags())
	flags := cmd.Flags()
	flags.BoolVar(&play, "demo", false, "drive the runs of the demo that has the same database in --data")
	flags.StringVar(&api.listen, "listen", onSocket, "unix, a socket that other commands find by the file of the store; or an ADDRESS such as localhost:8080, which needs --token-file")
	flags.StringVar(&api.cert, "tls-cert", "", "file of the certificate chain for --listen ADDRESS")
	flags.StringVar(&api.key, "tls-key", "", "file of the key of --tls-cert")
	flags.StringVar(&api.policy, "policy", "", "file with the rights of identities, for --listen ADDRESS; it is read again if it changes. Without it, every token has all rights")
	flags.StringVar(&api.health, "health-listen", "", "address for /healthz, /readyz and /metrics, such as localhost:8081; empty for none")
	return cmd
}

// serveHealth serves the health and the metrics of an engine. An engine is ready if it can read its
// store.
func serveHealth(ctx context.Context, o *options, address string, store backend.Store, registry *prometheus.Registry) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("--health-listen: %w", err)
	}
	_ = o.Said("health and metrics: http://%s/", listener.Addr())
	live := serving.Probe(func(context.Context) error { return nil })
	ready := serving.Probe(func(ctx context.Context) error {
		if _, err := store.Get(ctx, "ready"); err != nil && !errors.Is(err, backend.ErrNotFound) {
			return errors.New("the store cannot be read") // its error may name the database and the user
		}
		return nil
	})
	if err := health.Serve(ctx, listener, live, ready, registry); err != nil {
		return fmt.Errorf("--health-listen: %w", err)
	}
	return nil
}

// onSocket is the value of --listen for a socket beside the file of the store.
const onSocket = "unix"

// options returns how the API is served. It listens and reads the files of the flags.
func (s *server) options(o *options) (serve httpapi.ServeOptions, err error) {
	serve.Store, serve.Log = o.target.Store, o.target.Log
	name := o.target.Store
	if target.InDatabase(o.target.Store) { // other commands reach the database, whose URL may have a password
		serve.Store, name = "", "database"
	}
	serve.Ready = func(address string) { _ = o.Said("store/%s: served at %s", name, address) }
	if s.policy != "" && s.listen != onSocket {
		if s.rules, err = access.Open(s.policy); err != nil {
			return serve, fmt.Errorf("--policy: %w", err)
		}
		serve.Authorize = s.rules.Authorize
	}
	switch {
	case s.listen != onSocket:
		return serve, o.listen(&serve, s.listen, s.cert, s.key)
	case o.target.TokenFile != "" || s.cert != "" || s.key != "" || s.policy != "":
		return serve, cli.Usagef("--token-file, --tls-cert, --tls-key and --policy: leave them out without --listen ADDRESS, because only the owner of the file can connect to the socket")
	}
	return serve, nil
}

// checkServe checks the flags for the store and the clusters of an engine; play is --demo.
func (o *options) checkServe(play bool) error {
	shared := target.InDatabase(o.target.Store)
	switch {
	case o.target.Store == "":
		return cli.Usagef("--store is not set: it names the file of the store, which is created if it is missing, or a PostgreSQL database")
	case o.Timeout != 0:
		return cli.Usagef("--timeout: leave it out, because serve runs until it is interrupted")
	case play && (!shared || o.target.Clusters != ""):
		return cli.Usagef("--demo: use it with --store postgres://… and without --clusters")
	case shared && !play && o.target.Clusters == "":
		return cli.Usagef("--clusters is not set: an engine takes runs of all clusters from the others of the database, and needs the kubeconfig that they have")
	}
	return target.CheckStore("--store", o.target.Store)
}

// engineName returns a unique name for the process of an engine. It begins with the name of the
// machine, so that operators find it.
func engineName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "engine"
	}
	return host + "-" + rand.Text()[:6]
}

// listen completes the options of a server with an address: the identities come from the token
// file.
func (o *options) listen(serve *httpapi.ServeOptions, address, cert, key string) error {
	if o.target.TokenFile == "" {
		return cli.Usagef(`--listen %s: --token-file is not set: it names a file of lines token,user,uid,"group,group"`, address)
	}
	f, err := secretfile.Open(o.target.TokenFile)
	if err == nil {
		defer f.Close()
		serve.Authenticate, err = httpapi.Tokens(f)
	}
	if err != nil {
		return fmt.Errorf("--token-file %s: %w", o.target.TokenFile, err)
	}
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return fmt.Errorf("--tls-cert and --tls-key: %w", err)
		}
		serve.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	}
	if serve.Listener, err = net.Listen("tcp", address); err != nil {
		return fmt.Errorf("--listen %s: %w", address, err)
	}
	if at, is := serve.Listener.Addr().(*net.TCPAddr); is && !at.IP.IsLoopback() && serve.TLS == nil {
		o.Warn("tokens are sent in clear to %s: set --tls-cert and --tls-key, or put a proxy with TLS in front of it", at)
	}
	return nil
}
