package hub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/slipway-dev/slipway/hub/compat"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/objects"
	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/internal/backoff"
)

// Run serves until ctx ends, and returns nil then. If the hub loses the lead, it stops its work
// and waits for the lead again. An error means that the hub cannot serve until the hub cluster is
// changed, for example because the CRDs are not installed or a right is missing. Run must be
// called only once, because it closes the watches of the hub at its end.
func (h *Hub) Run(ctx context.Context) error {
	defer h.close()
	ctx = logr.NewContext(ctx, logr.FromSlogHandler(h.log.Handler()))
	if err := h.prepare(ctx); err != nil {
		h.failure.Store(&err)
		return err
	}
	lead := h.term
	if h.cfg.AlwaysLead {
		lead = h.lead
	}
	for ctx.Err() == nil {
		if err := lead(ctx); err != nil {
			h.failure.Store(&err)
			return err
		}
	}
	return nil
}

// A waiting hub tries to get the lease often, so that a handover is quick. A leader renews its
// lease often enough to survive two failed renewals in a row. Both intervals are fractions of the
// lease's duration.
const (
	waitingLooks  = 8
	leadingRenews = 4
)

// term waits for the lead and leads until it is lost. If work of the old leader still runs after
// that, the epochs of the engine refuse it. The Lease has the compatibility setting of the leader
// as a label.
func (h *Hub) term(ctx context.Context) error {
	if err := h.awaitLead(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	ctx, resign := context.WithCancel(ctx)
	defer resign()
	var t tenure
	err := h.elect(ctx, leadingRenews, true, leaderelection.LeaderCallbacks{
		OnStartedLeading: func(ctx context.Context) {
			t.serve(func() error {
				defer resign()
				return h.lead(ctx)
			})
		},
		OnNewLeader: func(name string) {
			if name != h.cfg.Name { // which took the lead just now
				resign()
			}
		},
	})
	if err != nil {
		return err
	}
	return t.end()
}

// awaitLead returns when the hub has the lead, or ctx has ended. It keeps the lease, which the
// next elector of the same name renews at once.
func (h *Hub) awaitLead(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	var won atomic.Bool
	ctx = logr.NewContext(ctx, logr.FromSlogHandler(&untilWon{h.log.Handler(), &won}))
	return h.elect(ctx, waitingLooks, false, leaderelection.LeaderCallbacks{
		OnStartedLeading: func(context.Context) {
			won.Store(true)
			end()
		},
		OnNewLeader: func(name string) {
			if name != "" && name != h.cfg.Name && h.cfg.Waiting != nil && ctx.Err() == nil {
				h.cfg.Waiting(name)
			}
		},
	})
}

// untilWon drops log messages after the lead is won, because the elector then ends and logs that
// as a failure.
type untilWon struct {
	slog.Handler
	won *atomic.Bool
}

func (u *untilWon) Enabled(ctx context.Context, level slog.Level) bool {
	return !u.won.Load() && u.Handler.Enabled(ctx, level)
}

func (u *untilWon) Handle(ctx context.Context, r slog.Record) error {
	if u.won.Load() { // an error is logged without a look at Enabled
		return nil
	}
	return u.Handler.Handle(ctx, r)
}

func (u *untilWon) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &untilWon{u.Handler.WithAttrs(attrs), u.won}
}

func (u *untilWon) WithGroup(name string) slog.Handler {
	return &untilWon{u.Handler.WithGroup(name), u.won}
}

// elect takes part in the election until ctx ends or the lead is lost. It tries to get or renew
// the lease pace times per lease duration.
func (h *Hub) elect(ctx context.Context, pace int, release bool, callbacks leaderelection.LeaderCallbacks) error {
	callbacks.OnStoppedLeading = func() {}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: h.cfg.Namespace, Name: api.Lease},
			Client:     h.leases,
			Labels:     map[string]string{compat.Label: string(h.cfg.Compatibility)},
			LockConfig: resourcelock.ResourceLockConfig{Identity: h.cfg.Name},
		},
		LeaseDuration:   h.cfg.LeaseDuration,
		RenewDeadline:   h.cfg.LeaseDuration * 2 / 3,
		RetryPeriod:     h.cfg.LeaseDuration / time.Duration(pace),
		ReleaseOnCancel: release,
		Name:            api.Lease,
		Callbacks:       callbacks,
	})
	if err != nil {
		return fmt.Errorf("hub: leader election: %w", err)
	}
	elector.Run(ctx)
	return nil
}

// tenure is the time in which a hub leads. The election starts it in a separate goroutine,
// possibly after the lead is lost again.
type tenure struct {
	mu   sync.Mutex
	over bool
	err  error
}

func (t *tenure) serve(lead func() error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		t.err = lead()
	}
}

// end waits until serve has returned, prevents a later one, and returns its error.
func (t *tenure) end() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	return t.err
}

// lead drives the engine and serves the objects until ctx ends or either of them fails.
func (h *Hub) lead(ctx context.Context) error {
	if err := h.checkDefinitions(ctx); err != nil && !passes(err) { // they may have changed while another hub led
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	h.leading.Store(true)
	defer h.leading.Store(false)
	h.meters.Leading.Set(1)
	defer h.meters.Leading.Set(0)
	h.log.Info("leading", "hub", h.cfg.Name, "compatibility", string(h.cfg.Compatibility))

	s, err := newService(h)
	if err != nil {
		return err
	}
	h.statuses.Store(s.statuses)
	defer h.statuses.Store(nil)
	var group sync.WaitGroup
	failures := make([]error, 2)
	for i, work := range []func(context.Context) error{h.engine.Start, s.run} {
		group.Go(func() {
			defer stop()
			if err := work(ctx); !errors.Is(err, context.Canceled) {
				failures[i] = err // a cancelled context is a consequence, not a failure
			}
		})
	}
	group.Wait()
	if err := errors.Join(failures...); err != nil {
		return fmt.Errorf("hub %s: %w", h.cfg.Name, err)
	}
	return nil
}

// prepare checks the definitions and makes the namespace of the hub if it is missing, as soon as
// the API server answers.
func (h *Hub) prepare(ctx context.Context) error {
	for again := backoff.New(time.Second, 30*time.Second).Spread(); ctx.Err() == nil; again.Wait(ctx) {
		err := h.checkDefinitions(ctx)
		if err == nil {
			err = h.tryNamespace(ctx)
		}
		switch {
		case ctx.Err() != nil:
		case err == nil || !passes(err):
			return err
		default:
			h.log.Warn("the hub cluster cannot be read yet, will be tried again", "error", err)
		}
	}
	return nil
}

// passes reports whether err may disappear without a change of the hub cluster.
func passes(err error) bool {
	return objects.Passes(err) && !errors.Is(err, manifests.ErrOtherCompatibility)
}

// checkDefinitions returns an error if the definitions cannot be read or have another
// compatibility setting.
func (h *Hub) checkDefinitions(ctx context.Context) error {
	if err := manifests.CheckCompatibility(ctx, h.client, h.cfg.Compatibility); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return nil
}

// tryNamespace creates the namespace of the hub if it is missing. A hub without the right to
// create it expects it to exist.
func (h *Hub) tryNamespace(ctx context.Context) error {
	namespaces := h.kube.CoreV1().Namespaces()
	_, err := namespaces.Get(ctx, h.cfg.Namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.cfg.Namespace}}, metav1.CreateOptions{FieldManager: api.Manager})
	}
	switch {
	case apierrors.IsForbidden(err):
		h.log.Warn("the namespace of the hub can neither be read nor made: it must be there", "namespace", h.cfg.Namespace)
		return nil
	case err != nil && !apierrors.IsAlreadyExists(err):
		return fmt.Errorf("hub: namespace %s: %w", h.cfg.Namespace, err)
	}
	return nil
}
