package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet/httpapi"
)

// newServe runs an engine on a file, and answers for it.
func newServe(o *options) *cobra.Command {
	var listen string
	cmd := verb(o, "serve --store FILE", "Run an engine on the file of a store, and answer other commands for it until it is interrupted",
		"slipway serve --store state.db --clusters fleet.kubeconfig --source hub", func(cmd *cobra.Command, _ []string) (err error) {
			if o.target.Store == "" {
				return cli.Usagef("--store is not set: it names the file of the store, which is made if it is not there")
			}
			serve := httpapi.ServeOptions{Store: o.target.Store}
			if err := o.listener(listen, &serve); err != nil {
				return err
			}
			store, err := bolt.Open(o.target.Store, bolt.Options{})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, store.Close()) }()
			e, err := o.target.Engine(store)
			if err != nil {
				return err
			}
			serve.Ready = func(address string) { _ = o.Said("store/%s: served at %s", o.target.Store, address) }
			both, ctx := errgroup.WithContext(cmd.Context())
			both.Go(func() error { return e.Run(ctx) })
			both.Go(func() error { return httpapi.Serve(ctx, e, serve) })
			if err := both.Wait(); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil // it was interrupted
		})
	cmd.Flags().StringVar(&listen, "listen", "unix", "unix, for a socket that is found through the file, or an ADDRESS as in localhost:8080, which needs --token-file")
	return cmd
}

// listener completes where is served.
func (o *options) listener(listen string, serve *httpapi.ServeOptions) error {
	if listen == "unix" {
		if o.target.TokenFile != "" {
			return cli.Usagef("--token-file goes with --listen ADDRESS: on the socket only the owner of the file can connect")
		}
		return nil
	}
	if o.target.TokenFile == "" {
		return cli.Usagef(`--listen %s: --token-file is not set: it names a file of lines token,user,uid,"group,group"`, listen)
	}
	f, err := os.Open(o.target.TokenFile)
	if err != nil {
		return fmt.Errorf("--token-file: %w", err)
	}
	defer f.Close()
	if serve.Authenticate, err = httpapi.Tokens(f); err != nil {
		return fmt.Errorf("--token-file %s: %w", o.target.TokenFile, err)
	}
	if serve.Listener, err = net.Listen("tcp", listen); err != nil {
		return fmt.Errorf("--listen %s: %w", listen, err)
	}
	if at, is := serve.Listener.Addr().(*net.TCPAddr); is && !at.IP.IsLoopback() {
		o.Warn("tokens are sent in clear to %s: put a proxy with TLS in front of it", at)
	}
	return nil
}
