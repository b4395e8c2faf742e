package target_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

func connect(c *fleet.Config) error {
	members := memory.NewFleet(placement.Cluster{Name: "eu-1"})
	c.Inventory, c.Dialer, c.Source = members, members, memory.NewSource()
	return nil
}

// store creates a file with the placement shop, and returns an engine on it and a function that
// closes it.
func store(t *testing.T, file string) (*fleet.Engine, func()) {
	t.Helper()
	s, err := bolt.Open(file, bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := fleet.Config{Store: s, Name: "engine"}
	_ = connect(&cfg)
	e, err := fleet.New(cfg)
	if err == nil {
		err = e.PutPlacement(t.Context(), fleet.Placement{Name: "shop", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "shop"}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return e, func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// serve serves an engine until the test ends, and returns its address.
func serve(t *testing.T, e *fleet.Engine, o httpapi.ServeOptions) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	o.Ready = func(address string) { ready <- address }
	go func() { ended <- httpapi.Serve(ctx, e, o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case address := <-ready:
		return address
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	return ""
}

func TestATargetIsReached(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, closed := store(t, at("closed.db"))
	closed()
	served, closeServed := store(t, at("served.db"))
	t.Cleanup(closeServed)
	serve(t, served, httpapi.ServeOptions{Store: at("served.db")})
	_, closeHeld := store(t, at("held.db"))
	t.Cleanup(closeHeld)
	tcp, closeTCP := store(t, at("tcp.db"))
	t.Cleanup(closeTCP)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := httpapi.Tokens(strings.NewReader("s3cret,ann,1\n"))
	if err != nil {
		t.Fatal(err)
	}
	address := serve(t, tcp, httpapi.ServeOptions{Options: httpapi.Options{Authenticate: tokens}, Listener: ln, Store: at("tcp.db")})
	write("token", "s3cret\n")
	write("tokens", "s3cret,ann,1\n")
	write("empty", "")
	write("text", "this is no store\n")

	for name, c := range map[string]struct {
		o target.Options
		// live reports whether an engine may run there.
		live bool
		want string
	}{
		"a file":                       {o: target.Options{Store: at("closed.db")}},
		"a file that is served":        {o: target.Options{Store: at("served.db")}, live: true},
		"a file that is served by TCP": {o: target.Options{Store: at("tcp.db"), TokenFile: at("token")}, live: true},
		"a server":                     {o: target.Options{Server: address, TokenFile: at("token")}, live: true},
		"a file that is made":          {o: target.Options{Store: at("made.db"), Create: true}},

		"nothing":                  {want: "--store is not set"},
		"both":                     {o: target.Options{Store: at("closed.db"), Server: address}, want: "both set: want one of them"},
		"no file":                  {o: target.Options{Store: at("none.db")}, want: "no such file"},
		"a directory":              {o: target.Options{Store: dir}, want: "this is a directory; want a file, such as "},
		"a file that is no store":  {o: target.Options{Store: at("text")}, want: "text is not a store of Slipway, or its beginning is destroyed"},
		"a file that is held":      {o: target.Options{Store: at("held.db")}, want: "by a program that does not serve it"},
		"a URL without a scheme":   {o: target.Options{Server: "localhost:8080"}, want: "want http:// or https:// with a host"},
		"a URL of another scheme":  {o: target.Options{Server: "ftp://localhost"}, want: "want http:// or https:// with a host"},
		"a server that is not one": {o: target.Options{Server: "http://127.0.0.1:1"}, want: "connection refused"},
		"no token":                 {o: target.Options{Server: address}, want: "a token is missing"},
		"no file of the token":     {o: target.Options{Server: address, TokenFile: at("none")}, want: "--token-file"},
		"the file of the server":   {o: target.Options{Server: address, TokenFile: at("tokens")}, want: "the token and nothing else"},
		"an empty token":           {o: target.Options{Server: address, TokenFile: at("empty")}, want: "the token and nothing else"},
		"--as with a token":        {o: target.Options{Server: address, Options: &cli.Options{As: "ann"}}, want: "takes the identity from the token"},
		"--as-group alone":         {o: target.Options{Store: at("closed.db"), Options: &cli.Options{Groups: []string{"sre"}}}, want: "without --as"},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.Connect = connect
			if c.o.Options == nil {
				c.o.Options = &cli.Options{}
			}
			c.o.Output, c.o.IOStreams = cli.Table, genericiooptions.NewTestIOStreamsDiscard()
			err := c.o.Do(t.Context(), !c.o.Create, func(ctx context.Context, got *target.Target) error {
				if c.want == "" && (got.Live != c.live || (got.Engine == nil) != c.live || got.Hub != nil) {
					t.Errorf("live: %t, engine: %v, hub: %v", got.Live, got.Engine, got.Hub)
				}
				all, err := got.Placements(ctx)
				if err == nil && len(all) != 1 && !c.o.Create {
					t.Errorf("placements: %v", all)
				}
				return err
			})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("it shows the token: %v", err)
			}
		})
	}
}

// kubeconfig has the contexts hub, eu-1 and us-1, and one whose name is no DNS label.
const kubeconfig = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: x}}]
contexts:
- {name: hub, context: {cluster: c, user: u}}
- {name: eu-1, context: {cluster: c, user: u}}
- {name: us-1, context: {cluster: c, user: u}}
- {name: "arn:aws:eks:x", context: {cluster: c, user: u}}
`

const memberClusters = `
apiVersion: cluster.kubernetes-fleet.io/v1beta1
kind: MemberCluster
metadata: {name: eu-1, labels: {environment: canary}}
spec: {identity: {kind: ServiceAccount, name: a, namespace: b}}
---
apiVersion: cluster.kubernetes-fleet.io/v1beta1
kind: MemberCluster
metadata: {name: hub}
spec: {identity: {kind: ServiceAccount, name: a, namespace: b}, taints: [{key: k, effect: NoSchedule}]}
`

func TestContextsAreClusters(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	_, closed := store(t, filepath.Join(dir, "state.db"))
	closed()
	contexts, members := file("kubeconfig", kubeconfig), file("members.yaml", memberClusters)
	for name, c := range map[string]struct {
		o      target.Options
		policy placement.Policy
		// want are the clusters that the placement picks, warning or problem is part of the text.
		want             []string
		warning, problem string
	}{
		"the contexts":                  {o: target.Options{Clusters: contexts}, want: []string{"eu-1", "hub", "us-1"}, warning: "warning: context arn:aws:eks:x of --clusters " + contexts + " is not used, because the name of a cluster is a DNS label: kubectl config rename-context arn:aws:eks:x NAME\n"},
		"all but the source":            {o: target.Options{Clusters: contexts, Source: "hub"}, want: []string{"eu-1", "us-1"}, warning: "rename-context"},
		"a source of any name":          {o: target.Options{Clusters: contexts, Source: "arn:aws:eks:x"}, want: []string{"eu-1", "hub", "us-1"}},
		"selected by context":           {o: target.Options{Clusters: contexts}, policy: with("slipway.dev/context", "us-1"), want: []string{"us-1"}, warning: "rename-context"},
		"the ones of a file":            {o: target.Options{Clusters: contexts, Source: "hub", Members: members}, want: []string{"eu-1"}}, // hub has a taint
		"selected by a label":           {o: target.Options{Clusters: contexts, Members: members}, policy: with("environment", "canary"), want: []string{"eu-1"}},
		"a file of others":              {o: target.Options{Clusters: contexts, Members: file("others.yaml", strings.ReplaceAll(memberClusters, "eu-1", "eu-2"))}, problem: `there is no context "eu-2"`},
		"a name that cannot be":         {o: target.Options{Clusters: contexts, Members: file("arn.yaml", strings.ReplaceAll(memberClusters, "eu-1", "'arn:aws:eks:x'"))}, problem: "arn:aws:eks:x"},
		"a file without MemberClusters": {o: target.Options{Clusters: contexts, Members: file("none.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: web}\n")}, problem: "there is no MemberCluster: want one for each context"},
		"labels of nothing":             {o: target.Options{Members: members}, problem: "--cluster-labels is set without --clusters"},
		"no file":                       {o: target.Options{Clusters: contexts, Members: members + "x"}, problem: "--cluster-labels: open " + members + "x: "},
	} {
		t.Run(name, func(t *testing.T) {
			streams, _, _, errOut := genericiooptions.NewTestIOStreams()
			c.o.Options = &cli.Options{Output: cli.Table, IOStreams: streams}
			c.o.Store = filepath.Join(dir, "state.db")
			var got []string
			err := c.o.Do(t.Context(), true, func(ctx context.Context, to *target.Target) error {
				r, err := to.Placement("shop").PreviewResolve(ctx, &c.policy)
				for _, one := range r.Evaluations {
					if one.Picked {
						got = append(got, one.Cluster)
					}
				}
				slices.Sort(got)
				return err
			})
			if c.problem == "" && err != nil || c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)) {
				t.Errorf("%v, want %q", err, c.problem)
			}
			if warned := errOut.String(); !slices.Equal(got, c.want) || !strings.Contains(warned, c.warning) || c.warning == "" && warned != "" || strings.Count(warned, "\n") > 1 {
				t.Errorf("clusters %q, warnings %q; want %q and %q", got, warned, c.want, c.warning)
			}
		})
	}
}

// with is a policy that picks the clusters with a label.
func with(key, value string) placement.Policy {
	return placement.Policy{Required: []placement.Term{{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{key: value}}}}}
}

func TestIdentity(t *testing.T) {
	for name, want := range map[string]approval.Identity{"": {Name: httpapi.LocalUser()}, "ann": {Name: "ann", Groups: []string{"sre"}}} {
		o := target.Options{Options: &cli.Options{As: name, Groups: want.Groups}}
		if got, err := o.Identity(t.Context()); err != nil || got.Name != want.Name || len(got.Groups) != len(want.Groups) {
			t.Errorf("--as %q: %v, %v", name, got, err)
		}
	}
}

// A file that is held is waited for, as long as another command needs it.
func TestAFileIsWaitedFor(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.db")
	_, release := store(t, file)
	time.AfterFunc(200*time.Millisecond, release)
	o := target.Options{Options: &cli.Options{Output: cli.Table}, Store: file, Connect: connect}
	if err := o.Do(t.Context(), true, func(context.Context, *target.Target) error { return nil }); err != nil {
		t.Error(err)
	}
	_, release = store(t, file)
	defer release()
	o.Timeout = 100 * time.Millisecond
	if err := o.Do(t.Context(), true, func(context.Context, *target.Target) error { return nil }); !errors.Is(err, cli.ErrTimeout) {
		t.Errorf("%v, want %v", err, cli.ErrTimeout)
	}
}
