package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/backendtest"
	"github.com/slipway-dev/slipway/backend/kube/internal/kubetest"
	"github.com/slipway-dev/slipway/backend/kube/store"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/internal/kubeenv"
)

func TestListMatchesTheMemoryStore(t *testing.T) {
	server := clusters.Server(t, "one")
	s, model := storeOn(t, server.Config(), server.Namespace(t)), memory.NewStore()
	long := strings.Repeat("k", 150)
	keys := []string{
		"a", "a.b", "a/b", "a/b/c", "a/b/c/d", "a/b/c/d/e", "a/bc", "a-/b", "ab", "a/b-", "run/x", "run/x2", "run/x/1", "runs",
		long, long + "a", long + "b/c", long + "b/c/d", long + "b0", long[:140], long[:135], long + "-longer", "-/-", "_/x",
		strings.Repeat("s", 64) + "/x", strings.Repeat("k/", 100) + "x",
	}
	for _, key := range keys {
		mustPut(t, s, key, "value of "+key, "")
		mustPut(t, model, key, "value of "+key, "")
	}
	prefixes := []string{"", "A", "//", "zz"}
	for _, key := range keys {
		for _, n := range []int{1, 2, 3, 5, len(key) - 1, len(key)} {
			prefixes = append(prefixes, key[:min(max(n, 0), len(key))])
		}
	}
	slices.Sort(prefixes)
	for _, prefix := range slices.Compact(prefixes) {
		want, _ := keysOf(t.Context(), model, prefix)
		got, err := keysOf(t.Context(), s, prefix)
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Fatalf("prefix %q: %v %s", prefix, err, d)
		}
	}
}

func TestAStoreReadsTheLargestRecord(t *testing.T) {
	server := clusters.Server(t, "one")
	s := storeOn(t, server.Config(), server.Namespace(t))
	key, value := strings.Repeat("k/", backend.MaxKey/2-1)+"kk", make([]byte, backend.MaxValue)
	for i := range value {
		value[i] = byte(rand.IntN(256)) //nolint:gosec // the bytes are test data, not a secret
	}
	rev, err := s.Put(t.Context(), key, value, "")
	if err != nil {
		t.Fatal(err)
	}
	if rev, err = s.Put(t.Context(), key, value, rev); err != nil {
		t.Fatal(err)
	}
	for r, err := range s.List(t.Context(), "k/k/k/") {
		if d := cmp.Diff(backend.Record{Key: key, Value: value, Revision: rev}, r); err != nil || d != "" {
			t.Fatal(err, d)
		}
	}
}

func TestAStoreCreatesItsNamespace(t *testing.T) {
	server := clusters.Server(t, "one")
	s := storeOn(t, server.Config(), server.Namespace(t)+"-new")
	if _, err := s.Get(t.Context(), "a"); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("before there is a namespace, Get returns %v", err)
	}
	if keys, err := keysOf(t.Context(), s, ""); len(keys) > 0 || err != nil {
		t.Errorf("before there is a namespace, List yields %v, %v", keys, err)
	}
	mustPut(t, s, "a", "", "")
	for range 2 {
		if err := errors.Join(s.EnsureNamespace(t.Context()), s.Ping(t.Context())); err != nil {
			t.Error(err)
		}
	}
}

// documentedRules returns the rules in the documentation: the rules of the namespace and of the
// cluster.
func documentedRules(t *testing.T) (role rbacv1.Role, all rbacv1.ClusterRole) {
	t.Helper()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(doc), "//	kind: Role\n")
	text, _, _ = strings.Cut(text, "//\n// No other user")
	first, second, _ := strings.Cut(strings.ReplaceAll(text, "//\t", ""), "---\n")
	if err := errors.Join(yaml.UnmarshalStrict([]byte(first), &role), yaml.UnmarshalStrict([]byte(second), &all)); err != nil {
		t.Fatal(err)
	}
	return role, all
}

func TestAStoreNeedsTheRightsOfTheDocumentationAndNoOthers(t *testing.T) {
	server := clusters.Server(t, "one")
	namespace, user := server.Namespace(t), "store-"+strconv.FormatUint(rand.Uint64(), 36)
	admin, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	role, all := documentedRules(t)
	s := storeOn(t, server.ConfigFor(user), namespace)
	_, err = s.Get(t.Context(), "a")
	if !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), user) {
		t.Errorf("without rights, Get returns %v", err)
	}
	if err := s.Ping(t.Context()); !errors.Is(err, backend.ErrPermanent) {
		t.Errorf("without rights, Ping returns %v", err)
	}
	grant(t, admin, namespace, user, role.Rules, all.Rules)
	kubetest.Eventually(t, "the rights take effect", func() bool { return s.Ping(t.Context()) == nil && s.EnsureNamespace(t.Context()) == nil })
	names := []string{"create", "put-stale", "delete", "list-prefix", "watch-deletes"}
	for _, c := range backendtest.StoreCases() {
		at := slices.Index(names, c.Name)
		if at < 0 {
			continue
		}
		names = slices.Delete(names, at, at+1)
		if err := c.Run(t.Context(), s); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		clearStore(t, s)
	}
	if len(names) > 0 {
		t.Errorf("backendtest has no cases %v", names)
	}
}

func clearStore(t *testing.T, s *store.Store) {
	t.Helper()
	for r, err := range s.List(t.Context(), "") {
		if err == nil {
			err = s.Delete(t.Context(), r.Key, r.Revision)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

func grant(t *testing.T, c kubernetes.Interface, namespace, user string, rules, all []rbacv1.PolicyRule) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: user}
	who := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	ctx, rbac := t.Context(), c.RbacV1()
	_, err1 := rbac.Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	_, err2 := rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: all}, metav1.CreateOptions{})
	_, err3 := rbac.RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta, Subjects: who, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
	}, metav1.CreateOptions{})
	_, err4 := rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, Subjects: who, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
	}, metav1.CreateOptions{})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
}

func TestAStoreRefusesARecordThatSomebodyChanged(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Secret)
		want   error
	}{
		"value":  {func(s *corev1.Secret) { s.Data["value"] = []byte("hunter2") }, store.ErrDamaged},
		"format": {func(s *corev1.Secret) { s.Annotations["slipway.dev/format"] = "2" }, store.ErrNewer},
	} {
		t.Run(name, func(t *testing.T) {
			server := clusters.Server(t, "one")
			namespace := server.Namespace(t)
			s := storeOn(t, server.Config(), namespace)
			mustPut(t, s, "a/1", "value", "")
			object := changeSecret(t, server, namespace, c.change)
			_, get := s.Get(t.Context(), "a/1")
			_, list := keysOf(t.Context(), s, "")
			for _, err := range []error{get, list} {
				if !errors.Is(err, c.want) || !strings.Contains(fmt.Sprint(err), object) || strings.Contains(fmt.Sprint(err), "hunter2") {
					t.Errorf("the error is %v, want %v of %s", err, c.want, object)
				}
			}
		})
	}
}

// changeSecret changes the only Secret of a namespace and returns its name.
func changeSecret(t *testing.T, server *kubeenv.Server, namespace string, change func(*corev1.Secret)) string {
	t.Helper()
	client, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatal(len(list.Items), err)
	}
	secret := &list.Items[0]
	change(secret)
	if _, err := client.CoreV1().Secrets(namespace).Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return secret.Name
}

func TestClientRateLimitIsDisabled(t *testing.T) {
	server := clusters.Server(t, "one")
	cfg := server.Config()
	cfg.QPS = 0
	s := storeOn(t, cfg, server.Namespace(t))
	begin := time.Now()
	for range 200 {
		if err := s.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(begin); took > 35*time.Second {
		t.Errorf("200 requests took %v: client-go's limit of five a second holds", took)
	}
}

func TestAStoreLosesNoWriteWhenTheServerIsKilled(t *testing.T) {
	t.Parallel()
	server := kubeenv.ForTest(t).Server(t, "killed")
	s, err := store.New(server.Config(), store.Options{Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	rev := mustPut(t, s, "counter", "0", "")
	ctx, cancel := context.WithCancel(t.Context())
	var sure, unsure atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		count(ctx, s, rev, &sure, &unsure)
	}()
	for range 2 {
		before := sure.Load()
		kubetest.Eventually(t, "writes", func() bool { return sure.Load() > before+20 })
		if err := errors.Join(server.Kill(), server.Restart(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	before := sure.Load()
	kubetest.Eventually(t, "writes after the last restart", func() bool { return sure.Load() > before })
	cancel()
	<-done
	r, err := s.Get(t.Context(), "counter")
	n, _ := strconv.ParseInt(string(r.Value), 10, 64)
	if err != nil || n < sure.Load() || n > sure.Load()+unsure.Load() {
		t.Errorf("the counter is %s after %d writes that happened and %d that may have: %v", r.Value, sure.Load(), unsure.Load(), err)
	}
}

// count increments a counter until ctx ends, reading it only after a failure.
func count(ctx context.Context, s *store.Store, rev backend.Revision, sure, unsure *atomic.Int64) {
	for n := 0; ctx.Err() == nil; {
		next, err := s.Put(ctx, "counter", []byte(strconv.Itoa(n+1)), rev)
		if err == nil {
			n, rev = n+1, next
			sure.Add(1)
			continue
		}
		if !errors.Is(err, backend.ErrConflict) {
			unsure.Add(1)
		}
		for ctx.Err() == nil {
			if r, err := s.Get(ctx, "counter"); err == nil {
				n, _ = strconv.Atoi(string(r.Value))
				rev = r.Revision
				break
			}
		}
	}
}

func BenchmarkStore(b *testing.B) {
	server := clusters.Server(b, "one")
	s := storeOn(b, server.Config(), server.Namespace(b))
	for _, size := range []int{1 << 10, 256 << 10} {
		value := make([]byte, size)
		key := fmt.Sprintf("value/%d", size)
		rev, err := s.Put(b.Context(), key, value, "")
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("Put/%dKiB", size>>10), func(b *testing.B) {
			for b.Loop() {
				if rev, err = s.Put(b.Context(), key, value, rev); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("Get/%dKiB", size>>10), func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Get(b.Context(), key); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for i := range 500 {
		if _, err := s.Put(b.Context(), fmt.Sprintf("list/%d/%d", i%5, i), make([]byte, 2<<10), ""); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("List/100of500", func(b *testing.B) {
		for b.Loop() {
			if keys, err := keysOf(b.Context(), s, "list/1/"); err != nil || len(keys) != 100 {
				b.Fatal(len(keys), err)
			}
		}
	})
}
