package kube_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube"
	"github.com/slipway-dev/slipway/internal/kubeenv"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// TestAnAddressThatLeadsToNoAPIServerSaysNothing is about a proxy whose server is
// starting: what it has not may well exist.
func TestAnAddressThatLeadsToNoAPIServerSaysNothing(t *testing.T) {
	_, cfg := hostileServer(t, http.NotFound)
	s, err := kube.NewStore(cfg, kube.StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := kube.NewConn(cfg, kube.ConnOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, revision := t.Context(), backend.Revision("7.some-uid")
	_, get := s.Get(ctx, "a")
	_, create := s.Put(ctx, "a", nil, "")
	_, update := s.Put(ctx, "a", nil, revision)
	_, look := c.Get(ctx, settings("a"))
	_, event := c.Get(ctx, snapshot.ID{Version: "v1", Kind: "Event", Namespace: "default", Name: "a"})
	_, apply := c.Apply(ctx, configMap("default", "a"), backend.ApplyOptions{Manager: manager})
	_, dial := kube.NewDialer(configOf(cfg), kube.ConnOptions{}).Dial(ctx, placement.Cluster{Name: "one", UID: "some-uid"})
	for what, err := range map[string]error{
		"get": get, "create": create, "update": update, "delete": s.Delete(ctx, "a", revision), "ping": s.Ping(ctx),
		"list": lastOf(s.List(ctx, "")), "watch": lastOf(s.Watch(ctx, "")), "namespace": s.EnsureNamespace(ctx),
		"get of an object": look, "get of another kind": event, "apply": apply, "dial": dial,
		"delete of an object": c.Delete(ctx, settings("a"), backend.DeleteOptions{}),
		"watch of objects":    lastOf(c.(backend.ConnWatcher).Watch(ctx, []snapshot.ID{settings("a")})),
	} {
		t.Run(what, func(t *testing.T) { wantTransient(t, err) })
	}
}

// configOf returns a configuration of every cluster.
func configOf(cfg *rest.Config) kube.ConfigFunc {
	return func(context.Context, placement.Cluster) (*rest.Config, error) { return cfg, nil }
}

// lastOf returns the last error of a sequence.
func lastOf[T any](seq func(func(T, error) bool)) (last error) {
	seq(func(_ T, err error) bool { last = err; return true })
	return last
}

// TestAConflictAboutSomethingElseIsNoConflictOfTheRecord is what a quota does that
// many write at the same time.
func TestAConflictAboutSomethingElseIsNoConflictOfTheRecord(t *testing.T) {
	s, other, faults := spoiled(t)
	rev := mustPut(t, other, "there", "1", "")
	for what, put := range map[string]func() error{
		"create": func() error { _, err := s.Put(t.Context(), "new", nil, ""); return err },
		"update": func() error { _, err := s.Put(t.Context(), "there", []byte("2"), rev); return err },
	} {
		for _, verb := range []string{"create", "update"} {
			faults.Add(kubeenv.Rule{Verb: verb, Fault: func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
				return statusAnswer(r, http.StatusConflict, metav1.Status{
					Reason: metav1.StatusReasonConflict, Details: &metav1.StatusDetails{Kind: "resourcequotas", Name: "q"},
				}, "")
			}})
		}
		t.Run(what, func(t *testing.T) { wantTransient(t, put()) })
		faults.Heal()
	}
}

// TestT8AWatchKeepsNoEndlessNames has a member tell of ever more objects, or of
// names as long as an answer may be.
func TestT8AWatchKeepsNoEndlessNames(t *testing.T) {
	const list = `{"kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"7"},"items":[`
	event := func(w io.Writer, name string) {
		fmt.Fprintf(w, `{"type":"ADDED","object":{"metadata":{"name":%q,"namespace":"n","resourceVersion":"8"}}}`+"\n", name)
		w.(http.Flusher).Flush()
	}
	for what, answer := range map[string]http.HandlerFunc{
		"ever more": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("watch") == "" {
				io.WriteString(w, list+"]}")
				return
			}
			for i := 0; r.Context().Err() == nil; i++ {
				event(w, fmt.Sprint("a", i))
			}
		},
		"a long name": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("watch") == "" {
				io.WriteString(w, list+"]}")
				return
			}
			event(w, strings.Repeat("a", 1000))
			<-r.Context().Done()
		},
		"a long name in a list": func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, list+`{"metadata":{"name":%q}}]}`, strings.Repeat("a", 1000))
		},
	} {
		t.Run(what, func(t *testing.T) {
			c := hostile(t, kube.ConnOptions{Limits: kube.Limits{Elements: 1000}}, answer)
			for _, err := range c.(backend.ConnWatcher).Watch(t.Context(), []snapshot.ID{settings("a")}) {
				if err != nil && !errors.Is(err, backend.ErrPermanent) {
					t.Errorf("the error is %v, want one that is permanent", err)
				}
			}
		})
	}
}

// TestT7NoWriteGoesOverAConnectionThatWasNotRecognized swaps the cluster while the
// engine has nothing to read: the connection is gone when it writes.
func TestT7NoWriteGoesOverAConnectionThatWasNotRecognized(t *testing.T) {
	var writes atomic.Int64
	member := func(uid string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				writes.Add(1)
				io.WriteString(w, prefix+`{}}`)
				return
			}
			fmt.Fprintf(w, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kube-system","uid":%q,"resourceVersion":"7"}}`, uid)
		}
	}
	first, cfg := hostileServer(t, member("one"))
	second, _ := hostileServer(t, member("two"))
	address := first.Listener.Addr().String()
	cfg.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	c, err := kube.NewDialer(configOf(cfg), kube.ConnOptions{}).Dial(t.Context(), placement.Cluster{Name: "one", UID: "one"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ends := func(what string, call func() error, ok func(error) bool) {
		eventually(t, what, func() bool {
			err := call()
			if err != nil && !ok(err) && (errors.Is(err, backend.ErrPermanent) || errors.Is(err, backend.ErrNotFound)) {
				t.Fatalf("%s: %v", what, err)
			}
			return ok(err)
		})
	}
	apply := func() error {
		_, err := c.Apply(t.Context(), configMap("default", "a"), backend.ApplyOptions{Manager: manager})
		return err
	}
	works := func(err error) bool { return err == nil }
	ends("a write", apply, works)
	first.CloseClientConnections()
	ends("a write over another connection", apply, works)
	ends("a write over the same connection", apply, works)
	if n := writes.Load(); n != 3 {
		t.Fatalf("%d writes, want 3", n)
	}
	address = second.Listener.Addr().String()
	first.CloseClientConnections()
	swapped := func(err error) bool {
		return errors.Is(err, backend.ErrPermanent) && strings.Contains(err.Error(), "swapped")
	}
	ends("the refusal of an apply", apply, swapped)
	ends("the refusal of a deletion", func() error { return c.Delete(t.Context(), settings("a"), backend.DeleteOptions{}) }, swapped)
	if n := writes.Load(); n != 3 {
		t.Errorf("%d writes went to the other cluster", n-3)
	}
}
