package member

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

const kitPlacement = "web"

// kit is a member, revisions, and updaters that bring the member to the revisions.
type kit struct {
	t      testing.TB
	member *memory.Cluster
	sets   map[string]snapshot.Set // by digest
	revs   map[string]string       // digest by name
	key    []byte                  // the placement's key
}

// newKit returns a member on which an object, a namespace and a bystander existed before, and these
// revisions:
//
//	A  namespace app; app/a, app/b
//	B  namespace app; app/a changed; app/c
//	C  namespace app; app/a as in A; default/x, which exists
//	D  namespace pre, which exists; pre/y; app is gone
func newKit(t testing.TB) *kit {
	t.Helper()
	k := &kit{t: t, member: memory.NewCluster("c1"), sets: map[string]snapshot.Set{}, revs: map[string]string{"": ""}, key: goldenKey}
	k.exists(namespaceObject("pre"))
	k.exists(configMap("default", "x", "theirs"))
	k.exists(configMap("default", "bystander", "theirs"))
	app := namespaceObject("app")
	k.revision("A", app, configMap("app", "a", "1"), configMap("app", "b", "1"))
	k.revision("B", app, configMap("app", "a", "2"), configMap("app", "c", "1"))
	k.revision("C", app, configMap("app", "a", "1"), configMap("default", "x", "ours"))
	k.revision("D", namespaceObject("pre"), configMap("pre", "y", "1"))
	return k
}

func (k *kit) exists(obj *unstructured.Unstructured) {
	k.t.Helper()
	if err := k.member.Update(obj); err != nil {
		k.t.Fatal(err)
	}
}

func (k *kit) revision(name string, objs ...*unstructured.Unstructured) string {
	k.t.Helper()
	set, err := snapshot.NewSet(objs)
	if err != nil {
		k.t.Fatal(err)
	}
	k.sets[set.Digest], k.revs[name] = set, set.Digest
	return set.Digest
}

// load is the loader of the revisions.
func (k *kit) load(_ context.Context, placement, digest string) (*Revision, error) {
	set, ok := k.sets[digest]
	if !ok {
		return nil, fmt.Errorf("%w: %w", backend.ErrPermanent, ErrRevisionGone)
	}
	return NewRevision(placement, set)
}

// leader returns an engine's updater that uses the connections which wrap returns.
func (k *kit) leader(wrap func(backend.Conn) backend.Conn) *Applier {
	d := backend.DialerFunc(func(context.Context, placement.Cluster) (backend.Conn, error) {
		c := k.member.Conn()
		if wrap != nil {
			c = wrap(c)
		}
		return c, nil
	})
	return k.leaderOf(d)
}

func (k *kit) leaderOf(d backend.Dialer) *Applier {
	return NewApplier(NewConns(d, 0), k.load, kstatusProber{}, Options{})
}

// want returns the assignment of a revision by its name.
func (k *kit) want(rev string, epoch int64, run string) Assignment {
	digest, ok := k.revs[rev]
	if !ok {
		k.t.Fatalf("there is no revision %q", rev)
	}
	return WithKey(backend.Assignment{
		Placement: kitPlacement, Run: run, RunUID: "uid-" + run, Epoch: epoch, Attempt: 1,
		Cluster: placement.Cluster{Name: "c1"}, Revision: digest,
	}, k.key)
}

// must carries out an assignment and fails the test on an error.
func (k *kit) must(u *Applier, a Assignment) backend.Proof {
	k.t.Helper()
	r, err := u.Update(k.t.Context(), a)
	if err != nil {
		k.t.Fatalf("Update: %v", err)
	}
	return r
}

// place brings the member to a revision.
func (k *kit) place(rev string, epoch int64, run string) backend.Proof {
	k.t.Helper()
	return k.must(k.leader(nil), k.want(rev, epoch, run))
}

// ledger returns the member's ledger.
func (k *kit) ledger() *ledger {
	k.t.Helper()
	obj, err := k.member.Get(ledgerID(kitPlacement))
	if err != nil {
		k.t.Fatal(err)
	}
	text, _, _ := unstructured.NestedString(obj.Object, "data", ledgerKey)
	l, err := decodeLedger(kitPlacement, text, k.key)
	if err != nil {
		k.t.Fatalf("the ledger cannot be read: %v\n%s", err, text)
	}
	return l
}

// objects returns the objects on the member, without ledgers and built-in namespaces. It maps
// kind/namespace/name to the value, with "+ours" if the object carries our digest.
func (k *kit) objects() map[string]string {
	out := map[string]string{}
	for _, obj := range k.member.List("") {
		id := snapshot.IDOf(obj)
		if reserved(id) || id.Name == "kube-system" || id.Name == "default" {
			continue
		}
		v, _, _ := unstructured.NestedString(obj.Object, "data", "v")
		if carries(obj, kitPlacement) {
			v += "+ours"
		}
		if isTerminating(obj) {
			v += "+terminating"
		}
		out[strings.Trim(id.Kind+"/"+id.Namespace, "/")+"/"+id.Name] = v
	}
	return out
}

// state returns all objects of the member with their resourceVersions.
func (k *kit) state() map[string]*unstructured.Unstructured {
	out := map[string]*unstructured.Unstructured{}
	for _, obj := range k.member.List("") {
		out[snapshot.IDOf(obj).String()] = obj
	}
	return out
}

// expected returns the result of objects if the member has exactly the given revision. Objects that
// existed before have the value theirs, except x with xTaken.
func (k *kit) expected(rev string, xTaken bool) map[string]string {
	out := map[string]string{"Namespace/pre": "", "ConfigMap/default/x": "theirs", "ConfigMap/default/bystander": "theirs"}
	if xTaken {
		out["ConfigMap/default/x"] = "ours"
	}
	maps.Copy(out, map[string]map[string]string{
		"":  {},
		"A": {"Namespace/app": "+ours", "ConfigMap/app/a": "1+ours", "ConfigMap/app/b": "1+ours"},
		"B": {"Namespace/app": "+ours", "ConfigMap/app/a": "2+ours", "ConfigMap/app/c": "1+ours"},
		"C": {"Namespace/app": "+ours", "ConfigMap/app/a": "1+ours", "ConfigMap/default/x": "ours+ours"},
		"D": {"Namespace/pre": "+ours", "ConfigMap/pre/y": "1+ours"},
	}[rev])
	return out
}

func namespaceObject(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
	}}
}

func configMap(namespace, name, v string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name, "namespace": namespace},
		"data":     map[string]any{"v": v},
	}}
}

func configMapID(namespace, name string) snapshot.ID {
	return snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: namespace, Name: name}
}

// hookedConn calls before ahead of every call.
type hookedConn struct {
	backend.Conn
	before func(op string, id snapshot.ID)
}

func (h *hookedConn) Get(ctx context.Context, id snapshot.ID) (*unstructured.Unstructured, error) {
	h.before("get", id)
	return h.Conn.Get(ctx, id)
}

func (h *hookedConn) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	h.before("apply", snapshot.IDOf(obj))
	return h.Conn.Apply(ctx, obj, o)
}

func (h *hookedConn) Delete(ctx context.Context, id snapshot.ID, o backend.DeleteOptions) error {
	h.before("delete", id)
	return h.Conn.Delete(ctx, id, o)
}

// hook returns a wrapper for kit.leader.
func hook(before func(op string, id snapshot.ID)) func(backend.Conn) backend.Conn {
	return func(c backend.Conn) backend.Conn { return &hookedConn{c, before} }
}

// unfencedConn is a connection to a member without fences.
type unfencedConn struct{ backend.Conn }

func unfenced(c backend.Conn) backend.Conn { return unfencedConn{c} }

func (u unfencedConn) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	o.Fence = backend.Fence{}
	return u.Conn.Apply(ctx, obj, o)
}

func (u unfencedConn) Delete(ctx context.Context, id snapshot.ID, o backend.DeleteOptions) error {
	o.Fence = backend.Fence{}
	return u.Conn.Delete(ctx, id, o)
}

// hookUnfenced returns a hook on a member without fences.
func hookUnfenced(before func(op string, id snapshot.ID)) func(backend.Conn) backend.Conn {
	return func(c backend.Conn) backend.Conn { return &hookedConn{unfenced(c), before} }
}

// spoilingConn spoils the results of Get.
type spoilingConn struct {
	backend.Conn
	spoil func(*unstructured.Unstructured) *unstructured.Unstructured
}

func (s *spoilingConn) Get(ctx context.Context, id snapshot.ID) (*unstructured.Unstructured, error) {
	obj, err := s.Conn.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	return s.spoil(obj), nil
}

// briefConn answers only the first calls.
type briefConn struct {
	backend.Conn
	calls *int
	most  int
}

var errEnded = errors.New("the engine has ended")

func (e *briefConn) over() bool {
	*e.calls++
	return *e.calls > e.most
}

func (e *briefConn) Get(ctx context.Context, id snapshot.ID) (*unstructured.Unstructured, error) {
	if e.over() {
		return nil, errEnded
	}
	return e.Conn.Get(ctx, id)
}

func (e *briefConn) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	if e.over() {
		return nil, errEnded
	}
	return e.Conn.Apply(ctx, obj, o)
}

func (e *briefConn) Delete(ctx context.Context, id snapshot.ID, o backend.DeleteOptions) error {
	if e.over() {
		return errEnded
	}
	return e.Conn.Delete(ctx, id, o)
}
