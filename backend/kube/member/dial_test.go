package member_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/backendtest"
	"github.com/slipway-dev/slipway/backend/kube/internal/kubetest"
	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/internal/kubeenv"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

func writeFile(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func clientFor(t *testing.T, s *kubeenv.Server) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(s.Config())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// kubeSystem returns the unique identity of a cluster.
func kubeSystem(t *testing.T, s *kubeenv.Server) string {
	t.Helper()
	ns, err := clientFor(t, s).CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(ns.UID)
}

func TestDialersKeepTheContract(t *testing.T) {
	s := clusters.Server(t, "one")
	uid := kubeSystem(t, s)
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "one.kubeconfig"), s.Kubeconfig())
	hub := clientFor(t, s).CoreV1().Secrets(s.Namespace(t))
	for name, data := range map[string]map[string][]byte{"one": {"kubeconfig": s.Kubeconfig()}, "one-kubeconfig": {"value": s.Kubeconfig()}} {
		if _, err := hub.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	clusterAPI := member.SecretOptions{Name: func(cluster string) string { return cluster + "-kubeconfig" }, Key: "value"}
	for name, configs := range map[string]member.ConfigFunc{
		"directory":   member.KubeconfigDirectory(dir, member.Allow{}),
		"contexts":    member.KubeconfigContexts(filepath.Join(dir, "one.kubeconfig"), member.Allow{}),
		"secrets":     member.KubeconfigSecrets(hub, member.SecretOptions{}),
		"cluster API": member.KubeconfigSecrets(hub, clusterAPI),
	} {
		t.Run(name, func(t *testing.T) {
			dialer := member.NewDialer(configs, member.Options{})
			if err := backendtest.CheckDialer(t.Context(), dialer, placement.Cluster{Name: "one", UID: uid}); err != nil {
				t.Error(err)
			}
		})
	}
	backendtest.TestDialer(t, member.NewDialer(member.KubeconfigDirectory(dir, member.Trusted()), member.Options{}), placement.Cluster{Name: "one", UID: uid})
}

// TestAClusterThatWasSwappedIsNotWritten has one name for two clusters.
func TestAClusterThatWasSwappedIsNotWritten(t *testing.T) {
	one, two := clusters.Server(t, "one"), clusters.Server(t, "two")
	dir := t.TempDir()
	path := filepath.Join(dir, "member.kubeconfig")
	dialer := member.NewDialer(member.KubeconfigDirectory(dir, member.Trusted()), member.Options{})
	known := placement.Cluster{Name: "member", UID: kubeSystem(t, one)}

	writeFile(t, path, one.Kubeconfig())
	c, err := dialer.Dial(t.Context(), known)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	writeFile(t, path, two.Kubeconfig())
	_, err = dialer.Dial(t.Context(), known)
	if !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), "swapped") {
		t.Errorf("the error is %v, want a permanent one that says that the cluster was swapped", err)
	}
	// If the inventory has the UID of the new cluster, Dial accepts the cluster.
	other, err := dialer.Dial(t.Context(), placement.Cluster{Name: "member", UID: kubeSystem(t, two)})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
}

// TestReconnectVerifiesTheClusterBeforeWriting has one address that leads to another
// cluster of the same authority after a while.
func TestReconnectVerifiesTheClusterBeforeWriting(t *testing.T) {
	var uid atomic.Value
	var looked, written atomic.Int32
	uid.Store("one")
	server, cfg := hostileServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			written.Add(1)
		}
		if strings.HasSuffix(r.URL.Path, "/kube-system") {
			looked.Add(1)
			fmt.Fprintf(w, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kube-system","uid":%q,"resourceVersion":"7"}}`, uid.Load())
			return
		}
		fmt.Fprint(w, prefix+"{}}")
	})
	configs := func(context.Context, placement.Cluster) (*rest.Config, error) { return cfg, nil }
	c, err := member.NewDialer(configs, member.Options{}).Dial(t.Context(), placement.Cluster{Name: "a", UID: "one"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 3 {
		applied(t, c, configMap("default", "a"), backend.Precondition{})
	}
	if n := looked.Load(); n > 2 {
		t.Errorf("%d looks at one connection", n)
	}
	uid.Store("two")
	server.CloseClientConnections()
	kubetest.Eventually(t, "another connection", func() bool { _, err := c.Get(t.Context(), settings("a")); return err == nil })
	before := written.Load()
	_, err = c.Apply(t.Context(), configMap("default", "a"), backend.ApplyOptions{Manager: manager})
	late := c.Delete(t.Context(), settings("a"), backend.DeleteOptions{})
	if !errors.Is(err, backend.ErrPermanent) || !errors.Is(late, backend.ErrPermanent) || written.Load() != before {
		t.Errorf("the errors are %v and %v, after %d writes", err, late, written.Load()-before)
	}
}

// TestT7AnEngineDoesNotTouchASwappedCluster also shows that a run says why it waits.
func TestT7AnEngineDoesNotTouchASwappedCluster(t *testing.T) {
	one, two := clusters.Server(t, "one"), clusters.Server(t, "two")
	ns := two.Namespace(t)
	cfg := two.Config()
	var counts kubeenv.Counts
	cfg.Wrap(counts.Wrap)
	r := newRollout(t, ns, cfg, placement.Cluster{Name: "one", UID: kubeSystem(t, one)})
	r.put(configMap(ns, "a"))
	r.start()
	r.begin("first")
	kubetest.Eventually(t, "the reason", func() bool { return strings.Contains(r.explain("first"), "swapped") })
	for call := range counts.Calls() {
		if call.Verb != "get" {
			t.Errorf("%s of %s was sent to another cluster", call.Verb, call.Resource)
		}
	}
}

func TestT12ASecretThatAsksForTooMuchIsRefused(t *testing.T) {
	s := clusters.Server(t, "one")
	hub := clientFor(t, s).CoreV1().Secrets(s.Namespace(t))
	exec := kubeconfigWith("server: "+s.URL(), "exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, args: ["+filepath.Join(t.TempDir(), "ran")+"], interactiveMode: Never}")
	for name, data := range map[string]map[string][]byte{"exec": {"kubeconfig": exec}, "empty": {}, "other": {"value": exec}} {
		if _, err := hub.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err := member.NewDialer(member.KubeconfigSecrets(hub, member.SecretOptions{}), member.Options{}).Dial(t.Context(), placement.Cluster{Name: name})
		if !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: the error is %v, want one that is permanent and names the Secret", name, err)
		}
	}
}

// TestNewCredentialsAreUsedFromTheNextDial replaces a refused file by an accepted one.
func TestNewCredentialsAreUsedFromTheNextDial(t *testing.T) {
	s := clusters.Server(t, "one")
	ns, dir := s.Namespace(t), t.TempDir()
	path := filepath.Join(dir, "one.kubeconfig")
	writeFile(t, path, kubeconfigWith("server: "+s.URL()+"\ninsecure-skip-tls-verify: true", token))
	r := newRolloutOf(t, ns, member.KubeconfigDirectory(dir, member.Allow{Insecure: true}), placement.Cluster{Name: "one"})
	r.put(configMap(ns, "a"))
	r.start()
	r.begin("first")
	kubetest.Eventually(t, "the reason", func() bool { return strings.Contains(r.explain("first"), "Unauthorized") })
	writeFile(t, path, s.Kubeconfig())
	if status := r.wait("first"); !status.Run.IsEnded() {
		t.Errorf("the run is %s", status.Run.State)
	}
}

func TestAConfigurationThatCannotBeUsedIsPermanent(t *testing.T) {
	for what, cfg := range map[string]*rest.Config{
		"no address":    {Host: "://"},
		"a certificate": {Host: "https://member.invalid", TLSClientConfig: rest.TLSClientConfig{CertData: []byte(canary), KeyData: []byte(canary)}},
		"an authority":  {Host: "https://member.invalid", TLSClientConfig: rest.TLSClientConfig{CAData: []byte(canary)}},
	} {
		configs := func(context.Context, placement.Cluster) (*rest.Config, error) { return cfg, nil }
		_, err := member.NewDialer(configs, member.Options{}).Dial(t.Context(), placement.Cluster{Name: "one"})
		if !errors.Is(err, backend.ErrPermanent) || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: the error is %v, want one that is permanent and quotes nothing", what, err)
		}
	}
}

// TestT13ConnectionsImpersonateTheConfiguredUser never falls back to the engine's own
// identity.
func TestT13ConnectionsImpersonateTheConfiguredUser(t *testing.T) {
	s := clusters.Server(t, "one")
	cfg := s.Config()
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "nobody"}
	c, err := member.NewConn(cfg, member.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Get(t.Context(), snapshot.ID{Version: "v1", Kind: "Namespace", Name: "default"})
	if !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), `"nobody"`) {
		t.Errorf("the error is %v, want one that nobody may read the namespace", err)
	}
}

// configOf returns a configuration of every cluster.
func configOf(cfg *rest.Config) member.ConfigFunc {
	return func(context.Context, placement.Cluster) (*rest.Config, error) { return cfg, nil }
}

// TestT7NoWriteGoesOverAConnectionThatWasNotRecognized swaps the cluster while the
// engine has nothing to read: the connection is gone when it writes.
func TestT7NoWriteGoesOverAConnectionThatWasNotRecognized(t *testing.T) {
	var writes atomic.Int64
	cluster := func(uid string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				writes.Add(1)
				io.WriteString(w, prefix+`{}}`)
				return
			}
			fmt.Fprintf(w, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kube-system","uid":%q,"resourceVersion":"7"}}`, uid)
		}
	}
	first, cfg := hostileServer(t, cluster("one"))
	second, _ := hostileServer(t, cluster("two"))
	address := first.Listener.Addr().String()
	cfg.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	c, err := member.NewDialer(configOf(cfg), member.Options{}).Dial(t.Context(), placement.Cluster{Name: "one", UID: "one"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ends := func(what string, call func() error, ok func(error) bool) {
		kubetest.Eventually(t, what, func() bool {
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

func TestPinnedUIDs(t *testing.T) {
	for uid, want := range map[string]string{"": "", "k": "k", "r/": "", "r/k": "k"} {
		if got := member.PinnedUID(uid); got != want {
			t.Errorf("PinnedUID(%q) = %q, want %q", uid, got, want)
		}
	}
}
