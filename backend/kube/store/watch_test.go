package store_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/internal/kubetest"
	"github.com/slipway-dev/slipway/backend/kube/store"
	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// following is a watch whose changes a test receives one by one.
type following struct {
	changes chan backend.Change
	err     chan error
	stop    context.CancelFunc
}

func follow(t *testing.T, s *store.Store, prefix string) *following {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	f := &following{make(chan backend.Change, 1000), make(chan error, 1), cancel}
	go func() {
		for c, err := range s.Watch(ctx, prefix) {
			if err != nil {
				f.err <- err
				return
			}
			f.changes <- c
		}
	}()
	return f
}

// followLive follows a prefix until it has received an existing record and then a write of it.
// After that the watch is open.
func followLive(t *testing.T, s *store.Store, other backend.Store, key string) (*following, backend.Revision) {
	t.Helper()
	listed := mustPut(t, other, key, "", "")
	f := follow(t, s, "a/")
	f.want(t, backend.Change{Key: key, Revision: listed})
	live := mustPut(t, other, key, "", listed)
	f.want(t, backend.Change{Key: key, Revision: live})
	return f, live
}

// want waits for the next change.
func (f *following) want(t *testing.T, c backend.Change) {
	t.Helper()
	select {
	case got := <-f.changes:
		if d := cmp.Diff(c, got); d != "" {
			t.Fatal(d)
		}
	case err := <-f.err:
		t.Fatal(err)
	case <-time.After(30 * time.Second):
		t.Fatalf("change %v did not come", c)
	}
}

// held returns a fault that blocks a watch until the returned function is called, and then applies
// the given fault to it.
func held(fault kubeenv.Fault) (kubeenv.Fault, func()) {
	begun := make(chan struct{})
	return func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		select {
		case <-begun:
		case <-r.Context().Done():
		}
		return fault(next, r)
	}, func() { close(begun) }
}

func TestAStoreWatchThatExpiresLosesNoChange(t *testing.T) {
	for name, fault := range map[string]kubeenv.Fault{"at once": kubeenv.Gone(), "as an event": kubeenv.GoneEvent()} {
		t.Run(name, func(t *testing.T) {
			s, other, faults := spoiled(t)
			f, live := followLive(t, s, other, "a/live")
			for _, key := range []string{"a/kept", "a/gone"} {
				f.want(t, backend.Change{Key: key, Revision: mustPut(t, other, key, "", "")})
			}
			expired, begin := held(fault)
			struck := faults.Add(kubeenv.Rule{Verb: "watch", Fault: expired})
			faults.CutWatches()
			kubetest.Eventually(t, "another watch", func() bool { return struck() == 1 })
			mustDelete(t, other, "a/gone")
			written := mustPut(t, other, "a/live", "again", live)
			begin()
			f.want(t, backend.Change{Key: "a/live", Revision: written})
			f.want(t, backend.Change{Key: "a/gone", Deleted: true})
			mustDelete(t, other, "a/kept")
			f.want(t, backend.Change{Key: "a/kept", Deleted: true})
		})
	}
}

func TestAStoreWatchThatIsCutContinuesWhereItWas(t *testing.T) {
	s, other, faults := spoiled(t)
	f, _ := followLive(t, s, other, "a/1")
	lists := faults.Add(kubeenv.Rule{Verb: "list", Times: -1, Fault: kubeenv.ResetBefore()})
	closed, begin := held(kubeenv.ResetBefore())
	struck := faults.Add(kubeenv.Rule{Verb: "watch", Fault: closed})
	faults.CutWatches()
	kubetest.Eventually(t, "another watch", func() bool { return struck() == 1 })
	mustDelete(t, other, "a/1")
	second := mustPut(t, other, "a/1", "", "")
	begin()
	f.want(t, backend.Change{Key: "a/1", Deleted: true})
	f.want(t, backend.Change{Key: "a/1", Revision: second})
	if lists() != 0 {
		t.Errorf("the records were listed %d times again", lists())
	}
}

func TestAStoreWatchEndsWithAnErrorWhenTheServerStaysAway(t *testing.T) {
	s, other, faults := spoiled(t)
	f, _ := followLive(t, s, other, "a/1")
	faults.Add(kubeenv.Rule{Times: -1, Fault: kubeenv.ResetBefore()})
	faults.CutWatches()
	select {
	case err := <-f.err:
		kubetest.WantTransient(t, err)
	case <-time.After(30 * time.Second):
		t.Fatal("the watch goes on")
	}
}

func TestAStoreWatchEndsWithTheErrorOfItsContext(t *testing.T) {
	s, _, _ := spoiled(t)
	f := follow(t, s, "a/")
	f.stop()
	if err := <-f.err; !errors.Is(err, context.Canceled) {
		t.Errorf("the watch ends with %v", err)
	}
}
