package hub

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// A request that is never answered delays a reconcile for a limited time, and no other object.
func TestARoundThatHangsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		_, err := bounded(t.Context(), api.Key{Name: "a"}, func(ctx context.Context, _ api.Key) (time.Duration, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != longestRound {
			t.Errorf("it ended after %v with %v", time.Since(begun), err)
		}
	})
}

// nameless is a cluster whose namespace kube-system has the given UID.
type nameless struct {
	backend.Conn
	uid string
}

func (n nameless) Get(context.Context, snapshot.ID) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetUID(types.UID(n.uid))
	return u, nil
}

func (nameless) Close() error { return nil }

// A member is not trusted if its identity is missing or too long.
func TestT7AMemberWithoutAnIdentityIsRefused(t *testing.T) {
	for uid, refused := range map[string]bool{"": true, strings.Repeat("x", 1<<20): true, "9d1c": false} {
		store := memory.NewStore()
		d := identityChecker{store: store, next: backend.DialerFunc(func(context.Context, placement.Cluster) (backend.Conn, error) {
			return nameless{uid: uid}, nil
		})}
		_, err := d.Dial(t.Context(), placement.Cluster{Name: "one"})
		_, none := store.Get(t.Context(), pinKey("one"))
		if errors.Is(err, backend.ErrPermanent) != refused || errors.Is(none, backend.ErrNotFound) != refused {
			t.Errorf("a uid of %d characters: %v, record: %v", len(uid), err, none)
		}
	}
}
