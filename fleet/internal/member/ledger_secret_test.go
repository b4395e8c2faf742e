package member

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// defaultingConn is a connection to a member that adds a value to every Secret.
type defaultingConn struct {
	backend.Conn
	value string
}

func (d defaultingConn) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	got, err := d.Conn.Apply(ctx, obj, o)
	if err == nil && got.GetKind() == "Secret" {
		err = unstructured.SetNestedField(got.Object, d.value, "data", "added")
	}
	return got, err
}

// ledgerText returns all text that a reader of the ledger sees.
func (k *kit) ledgerText() string {
	k.t.Helper()
	obj, err := k.member.Get(ledgerID(kitPlacement))
	if err != nil {
		k.t.Fatal(err)
	}
	b, err := json.Marshal(obj.Object)
	if err != nil {
		k.t.Fatal(err)
	}
	return string(b)
}

// TestLedgerDoesNotConfirmGuessedSecrets checks that a reader of the ledger cannot verify a
// guess of a Secret, even if the reader knows all other objects of the placement. While objects are
// applied and afterwards, the ledger contains nothing that can be computed from the objects alone.
func TestLedgerDoesNotConfirmGuessedSecrets(t *testing.T) {
	k := newKit(t)
	login := object("v1", "Secret", "default", "login")
	login.Object["data"] = map[string]any{"pin": "MTIzNA=="}
	set, err := snapshot.NewSet([]*unstructured.Unstructured{login, configMap("default", "known", "1")})
	if err != nil {
		t.Fatal(err)
	}
	k.revision("S", login, configMap("default", "known", "1"))
	var seen []string
	k.must(k.leader(func(c backend.Conn) backend.Conn {
		return &hookedConn{defaultingConn{c, "NTY3OA=="}, func(op string, id snapshot.ID) {
			if op == "apply" && id.Kind == "Secret" {
				seen = append(seen, k.ledgerText())
			}
		}}
	}), k.want("S", 1, "r1"))
	seen = append(seen, k.ledgerText())
	if len(seen) != 2 || !strings.Contains(seen[0], `Applying`) || !strings.Contains(seen[1], baselineKey) {
		t.Fatalf("the ledgers are not those of an intent, and of its end with a baseline:\n%s", strings.Join(seen, "\n"))
	}

	digests := map[string]string{"the set": set.Digest}
	for i, item := range set.Items {
		digests["object "+item.ID.String()] = item.Digest
		digests["value "+item.ID.String()] = snapshot.Digest(set.Bodies[i])
	}
	for _, p := range set.Pages() {
		digests["a page"] = p.Digest
	}
	for _, value := range []string{"1234", "MTIzNA==", "5678", "NTY3OA=="} {
		digests["value "+value] = snapshot.Digest([]byte(value))
	}
	for what, digest := range digests {
		raw, err := hex.DecodeString(digest)
		if err != nil || len(raw) != sha256.Size {
			t.Fatal(digest)
		}
		for _, text := range seen {
			for _, form := range []string{digest[:32], base64.StdEncoding.EncodeToString(raw)[:20], base64.StdEncoding.EncodeToString([]byte(digest))[:40]} {
				if strings.Contains(text, form) {
					t.Errorf("the digest of %s is in the ledger:\n%s", what, text)
				}
			}
		}
	}

	// Under another key, everything looks different except parts that are not secret.
	other := newKit(t)
	other.key = []byte("another key of another placement")
	other.revision("S", login, configMap("default", "known", "1"))
	other.must(other.leader(func(c backend.Conn) backend.Conn { return defaultingConn{c, "NTY3OA=="} }), other.want("S", 1, "r1"))
	a, b := k.stored(), other.stored()
	for i := range a {
		if a[i] == b[i] {
			t.Errorf("%q is the same under two keys", a[i])
		}
	}
}

// stored returns the parts of a ledger that depend on the placed objects.
func (k *kit) stored() []string {
	k.t.Helper()
	obj, err := k.member.Get(ledgerID(kitPlacement))
	if err != nil {
		k.t.Fatal(err)
	}
	var l ledger
	var b baselineRecord
	data, _ := obj.Object["data"].(map[string]any)
	for key, into := range map[string]any{ledgerKey: &l, baselineKey: &b} {
		text, _ := data[key].(string)
		if err := json.Unmarshal([]byte(text), into); err != nil {
			k.t.Fatal(err)
		}
	}
	out := []string{l.Revision}
	for _, o := range b.Objects {
		out = append(out, o.Tag, string(o.Data))
	}
	if len(out) < 3 {
		k.t.Fatal("there is no baseline")
	}
	return out
}

// TestALedgerUnderAnotherKeyIsTakenOver checks that a ledger under another key, for example after
// the loss of the engine's store, does not say which revision the cluster has. The objects that it
// names still belong to the placement: all desired objects are applied, and the others are removed.
func TestALedgerUnderAnotherKeyIsTakenOver(t *testing.T) {
	k := newKit(t)
	k.place("A", 1, "r1")
	k.key = []byte("the key of a store that was made")
	if l := k.ledger(); l.Revision != unknownRevision {
		t.Errorf("the ledger tells %q", l.Revision)
	}
	a := k.want("A", 2, "r2")
	if r, err := k.leader(nil).Observe(t.Context(), a); err != nil || r.Current || r.Revision == a.Revision {
		t.Errorf("%+v, %v", r, err)
	}
	u := k.leader(nil)
	x := Comparison{Placement: kitPlacement, Cluster: placement.Cluster{Name: "c1"}, Key: k.key}
	if _, err := u.Compare(t.Context(), x); !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), "key") {
		t.Errorf("what it differs from cannot be told: %v", err)
	}
	if r := k.must(u, a); !r.Current || r.Revision != a.Revision || r.Released != "" {
		t.Errorf("%+v", r)
	}
	k.key = goldenKey // for the second time
	k.place("B", 3, "r3")
	wantObjects(t, k, k.expected("B", false))
	k.key = []byte("the key of a store that was made")
	k.place("", 4, "r4")
	wantObjects(t, k, k.expected("", false))
}

// TestAnUnmarkedObjectOfTheSameVersionHasDrifted checks an object that lost its marks and has the
// same version in the next revision. The revision that the ledger proves shows that the object
// drifted, so the update leaves it alone if the strategy says so.
func TestAnUnmarkedObjectOfTheSameVersionHasDrifted(t *testing.T) {
	for name, c := range map[string]struct {
		to   string
		left bool
	}{"the same version": {"C", true}, "another version": {"B", false}} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			k.place("A", 1, "r1")
			k.exists(configMap("app", "a", "edited"))
			a := k.want(c.to, 1, "r2")
			a.Strategy.WhenToApply = apply.IfNotDrifted
			_, err := k.leader(nil).Update(t.Context(), a)
			left := k.valueOf("a") == "edited"
			if left != c.left || errors.Is(err, backend.ErrPermanent) != c.left {
				t.Errorf("it was left alone %v, %v", left, err)
			}
		})
	}
}
