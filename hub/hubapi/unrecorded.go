package hubapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/status"
)

// Unrecorded returns the summary of a run that has an object and no record, because the hub refused
// the run, has not taken it yet, or has deleted its record. Reason has the cause and the remedy. If
// the hub has not taken the run and no hub leads the cluster, Reason says since when. The error
// matches [backend.ErrNotFound] if the run has no object, and [backend.ErrConflict] if it has a
// record.
func (h *Hub) Unrecorded(ctx context.Context, run string) (fleet.RunSummary, error) {
	k := h.key(run)
	missing := fmt.Errorf("run %s: %w", run, backend.ErrNotFound)
	switch _, err := h.engine.Run(kubefleet.EngineName(k.Namespace, k.Name)).Status(ctx); {
	case err == nil:
		return fleet.RunSummary{}, fmt.Errorf("run %s has a record: %w", run, backend.ErrConflict)
	case !errors.Is(err, backend.ErrNotFound):
		return fleet.RunSummary{}, err
	}
	u, err := h.resource(api.RunKind, k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fleet.RunSummary{}, missing
	}
	if err != nil {
		return fleet.RunSummary{}, explain(err, k.Namespace, "viewer")
	}
	setting, err := h.setting(ctx)
	if err != nil {
		return fleet.RunSummary{}, err
	}
	out, why, err := status.Unrecorded(u, setting)
	if err != nil {
		return out, err
	}
	if !out.Ended.IsZero() || out.State == "" {
		out.Reason = why
	} else {
		out.Reason = why + h.leaderless(ctx)
	}
	out.Name, out.Placement = run, h.shown(k.Namespace, out.Placement)
	return out, nil
}

// leaderless returns the end of a sentence that says since when no hub leads the cluster. It is
// empty if a hub leads, or if the caller may not read the lease.
func (h *Hub) leaderless(ctx context.Context) string {
	lease, err := h.lease(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("; no hub leads this cluster, because there is no Lease %s in namespace %s: start one with slipway hub", api.Lease, h.store.namespace)
	case err != nil:
		return ""
	}
	if since := status.Leaderless(lease, time.Now()); !since.IsZero() {
		return "; no hub leads this cluster since " + since.Format(time.DateTime) + ": start one with slipway hub"
	}
	return ""
}

// notFound returns the error for a run without a record: its state as the object shows it, with the
// reason.
func notFound(s *fleet.RunSummary) *httpapi.Error {
	run := s.Name
	text := "run " + run + ": " + s.Reason
	if s.State != "" {
		text = "run " + run + " is " + string(s.State) + ": " + s.Reason
	}
	return &httpapi.Error{Code: http.StatusNotFound, Reason: "NotFound", Message: text}
}

// withoutRecord passes on an answer of the records, except NotFound, which it keeps back.
type withoutRecord struct {
	http.ResponseWriter
	missing bool
	body    strings.Builder
}

func (w *withoutRecord) WriteHeader(code int) {
	if w.missing = code == http.StatusNotFound; !w.missing {
		w.ResponseWriter.WriteHeader(code)
	}
}

func (w *withoutRecord) Write(text []byte) (int, error) {
	if w.missing {
		return w.body.Write(text)
	}
	return w.ResponseWriter.Write(text)
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (w *withoutRecord) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// end answers a request about a run. If there is no record, the answer is the state that the object
// of the run shows, or the answer that was kept back. If the hub has recorded the run since, end
// answers nothing and returns true: the request must be served again.
func (w *withoutRecord) end(ctx context.Context, h *Hub, run string) (again bool) {
	if !w.missing {
		return false
	}
	s, err := h.Unrecorded(ctx, run)
	w.Header().Del("Content-Length")
	switch {
	case err == nil:
		httpapi.WriteError(w.ResponseWriter, notFound(&s))
	case errors.Is(err, backend.ErrConflict):
		return true
	default:
		w.ResponseWriter.WriteHeader(http.StatusNotFound)
		_, _ = w.ResponseWriter.Write([]byte(w.body.String()))
	}
	return false
}
