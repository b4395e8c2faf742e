// Command kubefleet runs the servers for KubeFleet's own suites, and reads the results of the
// suites:
//
//	kubefleet serve DIR              # a hub's API server and those of three members, until it is interrupted
//	kubefleet report KNOWN FILE...   # ginkgo's reports, beside the specs that are known to fail
//	kubefleet beside BUILD SLIPWAY LOGS  # KubeFleet's agents and a hub, one after the other, measured
//
// serve writes DIR/config, whose contexts have the names that the suites expect,
// DIR/hub.kubeconfig and DIR/members, and then the file DIR/ready. Members have a node and a
// replacement for the kubelet: Pods start immediately, Pods of Jobs complete, and Pods with an
// untagged image never start, as the suites require. .ci/kubefleet calls this command.
//
// beside performs the same work with KubeFleet's agents and with slipway hub on such servers, and
// prints a table of times and resources. BUILD is the directory that .ci/kubefleet-build agents
// prints. .ci/beside calls this command.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/slipway-dev/slipway/internal/kubeenv"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubefleet:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "serve":
		return serve(ctx, args[1])
	case len(args) > 2 && args[0] == "report":
		return report(os.Stdout, args[1], args[2:])
	case len(args) == 4 && args[0] == "beside":
		return beside(ctx, os.Stdout, args[1], args[2], args[3])
	default:
		return errors.New("usage: kubefleet serve DIR, kubefleet report KNOWN FILE, or kubefleet beside BUILD SLIPWAY LOGS")
	}
}

// serve runs the servers until ctx ends.
func serve(ctx context.Context, dir string) (err error) {
	s, err := startServers(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := os.MkdirAll(filepath.Join(dir, "members"), 0o755); err != nil {
		return err
	}
	all := api.NewConfig()
	all.CurrentContext = contextPrefix + hubName
	if err := addContext(all, all.CurrentContext, s.hub, filepath.Join(dir, "hub.kubeconfig")); err != nil {
		return err
	}
	for i, name := range memberNames() {
		name = contextPrefix + name
		if err := addContext(all, name, s.members[i], filepath.Join(dir, "members", name+".kubeconfig")); err != nil {
			return err
		}
	}
	if err := clientcmd.WriteToFile(*all, filepath.Join(dir, "config")); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "ready"), nil, 0o600); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// addContext adds a server to a kubeconfig, and writes one of its own.
func addContext(all *api.Config, name string, s *kubeenv.Server, file string) error {
	one, err := clientcmd.Load(s.Kubeconfig())
	if err != nil {
		return err
	}
	current := one.Contexts[one.CurrentContext]
	all.Clusters[name], all.AuthInfos[name] = one.Clusters[current.Cluster], one.AuthInfos[current.AuthInfo]
	all.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	return os.WriteFile(file, s.Kubeconfig(), 0o600)
}
