package main

import (
	"context"
	"errors"

	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// The names of the hub's server and of those of the members, beside which the contexts of the
// suites have "kind-".
const (
	hubName       = "hub"
	contextPrefix = "kind-"
)

func memberNames() []string { return []string{"cluster-1", "cluster-2", "cluster-3"} }

// servers are a hub's API server and those of members, which have a node and a stand-in for the
// kubelet.
type servers struct {
	env     *kubeenv.Env
	hub     *kubeenv.Server
	members []*kubeenv.Server // as memberNames
}

// startServers starts them. The stand-ins end with ctx, all else with close. The options are
// those of the server of a name, which may need the environment's directory; nil is none.
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
