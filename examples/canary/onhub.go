package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"os"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/backend/kube/source"
	"github.com/slipway-dev/slipway/backend/kube/store"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// onHub serves a hub of real clusters, or carries out a command beside the process that does.
func onHub(ctx context.Context, l line, std stdio, log *slog.Logger) error {
	config, err := clientcmd.BuildConfigFromFlags("", l.kubeconfig)
	if err != nil {
		return fmt.Errorf("-kubeconfig %s: %w", l.kubeconfig, err)
	}
	config.QPS, config.Burst = 100, 200 // the default of 5 is made for people
	if l.install || l.installOnly {
		if err := install(ctx, config, std.out); err != nil || l.installOnly {
			return err
		}
	}
	s, err := newSession(config, l, std, log)
	if err != nil {
		return err
	}
	if len(l.words) > 0 {
		_, err = s.do(ctx)
	} else {
		err = s.serve(ctx, config, std.out, log)
	}
	return errors.Join(err, s.hub.(*cluster).Close())
}

// newSession makes the engine of the hub.
func newSession(config *rest.Config, l line, std stdio, log *slog.Logger) (*session, error) {
	records, err := store.New(config, store.Options{Namespace: l.records})
	if err != nil {
		return nil, err
	}
	hub, err := newCluster(config)
	if err != nil {
		return nil, err
	}
	dialer := member.NewDialer(member.KubeconfigDirectory(l.members, member.Trusted()), member.Options{})
	inventory := managed{hub}
	engine, err := fleet.New(fleet.Config{Name: processName(), Store: records, Inventory: inventory, Dialer: dialer, Source: hub, Log: log})
	if err != nil {
		return nil, errors.Join(err, hub.Close())
	}
	return &session{
		line: l, printer: newPrinter(l, std), dialer: dialer, by: approval.Identity{Name: operator()},
		controller: &controller{hub: hub, inventory: inventory, engine: engine, records: records},
	}, nil
}

// processName tells this process from others that serve the same hub.
func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "canary"
	}
	return host + "-" + strings.ToLower(rand.Text()[:8])
}

// operator is who gives commands. The process has the rights of the kubeconfig; who uses it is what the
// operating system says.
func operator() string {
	if name := os.Getenv("USER"); name != "" {
		return name
	}
	return "operator"
}

// serve carries out what is declared until ctx ends. What fails first ends the rest.
func (s *session) serve(ctx context.Context, config *rest.Config, out io.Writer, log *slog.Logger) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	hub := s.hub.(*cluster)
	works := []func(context.Context) error{
		s.engine.Run,
		(&registrar{clusters: hub.client.Resource(resourceOf(managedClusters)), dialer: s.dialer, dir: s.members, out: out, log: log, joined: map[string]bool{}}).run,
		(&follower{controller: s.controller, log: log}).run,
	}
	fmt.Fprintf(out, "serving %s\n", config.Host)
	var group sync.WaitGroup
	failures := make([]error, len(works))
	for i, work := range works {
		group.Go(func() {
			defer stop()
			failures[i] = work(ctx)
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

// cluster is a hub on a real API server.
type cluster struct {
	*source.Source
	client dynamic.Interface
}

func newCluster(config *rest.Config) (*cluster, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	source, err := source.New(config, source.Options{})
	return &cluster{Source: source, client: client}, err
}

func resourceOf(k kind) schema.GroupVersionResource {
	return k.GroupVersion().WithResource(k.plural)
}

// SetStatus makes status that of an application, unless it has changed meanwhile.
func (c *cluster) SetStatus(ctx context.Context, app *unstructured.Unstructured, status map[string]any) error {
	app = app.DeepCopy()
	app.Object["status"] = status
	_, err := c.client.Resource(resourceOf(applications)).Namespace(app.GetNamespace()).UpdateStatus(ctx, app, metav1.UpdateOptions{})
	return err
}

// SetFinalizers makes finalizers those of an application, unless it has changed meanwhile.
func (c *cluster) SetFinalizers(ctx context.Context, app *unstructured.Unstructured, finalizers []string) error {
	app = app.DeepCopy()
	app.SetFinalizers(finalizers)
	_, err := c.client.Resource(resourceOf(applications)).Namespace(app.GetNamespace()).Update(ctx, app, metav1.UpdateOptions{})
	return err
}

// managed is the members, as the ManagedClusters of a hub name them.
type managed struct{ hub *cluster }

var _ backend.InventoryWatcher = managed{}

// Clusters yields the members. One that was registered again is another cluster.
func (m managed) Clusters(ctx context.Context) iter.Seq2[placement.Cluster, error] {
	return func(yield func(placement.Cluster, error) bool) {
		for obj, err := range m.hub.Objects(ctx, managedClusters.query("", "")) {
			if err != nil {
				yield(placement.Cluster{}, err)
				return
			}
			if obj.GetDeletionTimestamp() != nil {
				continue
			}
			if !yield(placement.Cluster{Name: obj.GetName(), UID: string(obj.GetUID()) + "/", Labels: maps.Clone(obj.GetLabels())}, nil) {
				return
			}
		}
	}
}

// WatchClusters yields when ManagedClusters may have changed.
func (m managed) WatchClusters(ctx context.Context) iter.Seq2[struct{}, error] {
	return m.hub.Watch(ctx, []snapshot.Query{managedClusters.query("", "")})
}

// follower carries out what is declared on a hub when that changes, or when a run does.
type follower struct {
	*controller
	log *slog.Logger
	// problems are what keeps applications from beginning, by their names.
	problems map[string]string
}

// again is how long after a failure, or at the latest, everything is read again.
const (
	again   = 2 * time.Second
	resync  = 30 * time.Second
	collate = 100 * time.Millisecond
)

func (f *follower) run(ctx context.Context) error {
	f.problems, f.tell = map[string]string{}, f.told
	wake := make(chan struct{}, 1)
	ring := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() { f.followHub(ctx, ring) })
	group.Go(func() { f.followRuns(ctx, ring) })
	for {
		next := resync
		if _, err := f.reconcile(ctx); err != nil && ctx.Err() == nil {
			f.log.Warn("an application cannot be seen to, and is tried again", "error", err)
			next = again
		}
		if len(f.problems) > 0 {
			next = again // what an application refers to is not watched
		}
		pause(ctx, collate) // what changes at the same time is seen to at once
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-time.After(next):
		}
	}
}

// told logs the problems of applications, each once.
func (f *follower) told(app string, problem error) {
	switch {
	case problem == nil:
		delete(f.problems, app)
	case f.problems[app] != problem.Error():
		f.problems[app] = problem.Error()
		f.log.Warn("an application does not begin", "application", app, "problem", problem)
	}
}

// followHub tells when something is declared or changed.
func (f *follower) followHub(ctx context.Context, ring func()) {
	var queries []snapshot.Query
	for _, k := range []kind{applications, policies, workflows} {
		queries = append(queries, k.query("", ""))
	}
	for ctx.Err() == nil {
		for _, err := range f.hub.(*cluster).Watch(ctx, queries) {
			if err != nil {
				break
			}
			ring()
		}
		pause(ctx, again)
	}
}

// followRuns tells when something happens to a run.
func (f *follower) followRuns(ctx context.Context, ring func()) {
	for ctx.Err() == nil {
		events, err := f.engine.Follow("", "")
		if err != nil {
			f.log.Warn("events cannot be followed", "error", err)
			pause(ctx, again)
			continue
		}
		for range events.Events(ctx) {
			ring()
		}
	}
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
