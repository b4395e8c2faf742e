package main

import (
	"context"
	"errors"

	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// The names of the hub's server and of the members' servers. The contexts of the suites have the
// prefix "kind-" before these names.
const (
	hubName       = "hub"
	contextPrefix = "kind-"
)

func memberNames() []string { return []string{"cluster-1", "cluster-2", "cluster-3"} }

// servers are the API servers of a hub and its members. Members have a node and a replacement for
// the kubelet.
type servers struct {
	env     *kubeenv.Env
	hub     *kubeenv.Server
	members []*kubeenv.Server // as memberNames
}

// startServers starts the servers. The kubelet replacements end with ctx, the servers with close.
// options returns the options of the server of a name and may use the environment's directory;
// nil means no options.
func startServers(ctx context.Context, options func(env *kubeenv.Env, name string) (kubeenv.ServerOptions, error)) (s *servers, err error) {
	s = &servers{}
	if s.env, err = kubeenv.Start(ctx, kubeenv.Options{}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.hub, err = s.start(ctx, hubName, options); err != nil {
		return nil, err
	}
	for _, name := range memberNames() {
		member, err := s.start(ctx, name, options)
		if err != nil {
			return nil, err
		}
		if err := startNode(ctx, member.Config()); err != nil {
			return nil, err
		}
		s.members = append(s.members, member)
	}
	return s, nil
}

func (s *servers) start(ctx context.Context, name string, options func(*kubeenv.Env, string) (kubeenv.ServerOptions, error)) (*kubeenv.Server, error) {
	var o kubeenv.ServerOptions
	if options != nil {
		var err error
		if o, err = options(s.env, name); err != nil {
			return nil, err
		}
	}
	server, err := s.env.StartServer(ctx, name, o)
	if err != nil {
		return nil, err
	}
	// The last controller lets claims go, without which their namespaces stay.
	return server, server.StartControllerManager(ctx, append(kubeenv.Controllers(), "persistentvolumeclaim-protection-controller")...)
}

func (s *servers) close() error { return s.env.Close() }
