package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/demo"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/internal/secretfile"
)

// newServe runs an engine on a store, and serves its API.
func newServe(o *options) *cobra.Command {
	var listen, cert, key string
	var play bool
	cmd := &cobra.Command{
		Use: "serve --store STORE", Short: "Run an engine on a store, and answer other commands for it until it is interrupted",
		Example: "  slipway serve --store state.db --clusters fleet.kubeconfig --source hub\n" +
			"  slipway serve --store postgres://db/slipway --clusters fleet.kubeconfig --source hub", Args: cli.Arguments(cobra.NoArgs),
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		if err := o.checkServe(play); err != nil {
			return err
		}
		serve, name, shared := httpapi.ServeOptions{Store: o.target.Store}, o.target.Store, target.InDatabase(o.target.Store)
		if shared { // other commands reach the database, whose URL may have a password
			serve.Store, name = "", "database"
		}
		switch {
		case listen != "unix":
			err = o.listen(&serve, listen, cert, key)
		case o.target.TokenFile != "" || cert != "" || key != "":
			err = cli.Usagef("--token-file, --tls-cert and --tls-key: leave them out without --listen ADDRESS, because only the owner of the file can connect to the socket")
		}
		if err != nil {
			return err
		}
		o.target.Log, o.target.Name = o.Logger(), engineName()
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
		serve.Ready = func(address string) { _ = o.Said("store/%s: served at %s", name, address) }
		both, ctx := errgroup.WithContext(cmd.Context())
		both.Go(func() error { return e.Start(ctx) })
		if shared && listen == "unix" {
			_ = o.Said("store/%s: the engine %s runs", name, o.target.Name)
		} else {
			both.Go(func() error { return httpapi.Serve(ctx, e, serve) })
		}
		if err := both.Wait(); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil // it was interrupted
	}
	o.target.Measures.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&play, "demo", false, "drive the runs of the demo that has the same database in --data")
	cmd.Flags().StringVar(&listen, "listen", "unix", "unix, a socket that other commands find by the file of the store; or an ADDRESS such as localhost:8080, which needs --token-file")
	cmd.Flags().StringVar(&cert, "tls-cert", "", "file of the certificate chain for --listen ADDRESS")
	cmd.Flags().StringVar(&key, "tls-key", "", "file of the key of --tls-cert")
	return cmd
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
