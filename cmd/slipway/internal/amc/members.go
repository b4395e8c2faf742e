package amc

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/placement"
)

// clustersVariable is the environment variable in place of --clusters.
const clustersVariable = "SLIPWAY_CLUSTERS"

// members are the members that can be read.
type members struct {
	// where describes the source of the members, for people.
	where string
	// list returns their names, ascending.
	list func(ctx context.Context) ([]string, error)
	// config returns the client configuration for a member's API server.
	config member.ConfigFunc
	// as is the user that the API servers of members impersonate.
	as rest.ImpersonationConfig
}

// find returns the members in the flags and the environment.
func (g *getter) find() (*members, error) {
	m, err := g.named(cmp.Or(g.target.Clusters, os.Getenv(clustersVariable)))
	if err != nil {
		return nil, err
	}
	m.as = rest.ImpersonationConfig{UserName: g.As, Groups: g.Groups}
	return m, nil
}

func (g *getter) named(path string) (*members, error) {
	if path == "" {
		return g.ofHub()
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--clusters: %w", err)
	case info.IsDir():
		return &members{
			where: path, config: member.KubeconfigDirectory(path, member.Trusted()),
			list: func(context.Context) ([]string, error) { return filesIn(path) },
		}, nil
	}
	return &members{
		where: path, config: member.KubeconfigContexts(path, member.Trusted()),
		list: func(context.Context) ([]string, error) { return contextsOf(path) },
	}, nil
}

func filesIn(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("--clusters: %w", err)
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".kubeconfig"); ok {
			names = append(names, name)
		}
	}
	return names, nil
}

func contextsOf(path string) (names []string, err error) {
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return nil, fmt.Errorf("--clusters %s: %w", path, err)
	}
	for name := range config.Contexts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// ofHub returns the MemberClusters of a hub, whose kubeconfigs are in Secrets there.
func (g *getter) ofHub() (*members, error) {
	if !g.kube.IsSet() {
		return nil, cli.Usagef("no members are named: --clusters or $%s names a directory that has NAME.kubeconfig for each; --kubeconfig or --context names the hub instead, if it has their kubeconfigs in Secrets", clustersVariable)
	}
	config, err := g.kube.Config()
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	hub, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	namespace := g.kube.HubNamespace
	secrets := member.KubeconfigSecrets(hub.CoreV1().Secrets(namespace), member.SecretOptions{})
	return &members{
		where: "the hub",
		list:  func(ctx context.Context) ([]string, error) { return memberClusters(ctx, client) },
		config: func(ctx context.Context, c placement.Cluster) (*rest.Config, error) {
			config, err := secrets(ctx, c)
			if err != nil {
				return nil, fmt.Errorf("no kubeconfig in namespace %s of the hub: %w; --clusters or $%s names a directory that has NAME.kubeconfig for each member", namespace, err, clustersVariable)
			}
			return config, nil
		},
	}, nil
}

func memberClusters(ctx context.Context, client dynamic.Interface) (names []string, err error) {
	gvr := schema.GroupVersionResource{Group: "cluster.kubernetes-fleet.io", Version: "v1beta1", Resource: "memberclusters"}
	list, err := client.Resource(gvr).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the MemberClusters of the hub: %w", err)
	}
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}
	slices.Sort(names)
	return names, nil
}

// reach returns the configuration for reading a member. Requests end with ctx, and requests that
// would change anything are not sent.
func (m *members) reach(ctx context.Context, name string) (*rest.Config, error) {
	config, err := m.config(ctx, placement.Cluster{Name: name})
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.QPS, config.UserAgent = -1, "slipway"
	if m.as.UserName != "" {
		config.Impersonate = m.as
	}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &reader{ctx, next} })
	return config, nil
}

// reader sends requests that only read.
type reader struct {
	ctx  context.Context //nolint:containedctx // lives during one call
	next http.RoundTripper
}

// RoundTrip refuses every method but GET.
func (r *reader) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet {
		return nil, fmt.Errorf("members are only read: %s %s is not sent", request.Method, request.URL.Path)
	}
	return r.next.RoundTrip(request.WithContext(r.ctx))
}
