package hub_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/hub"
)

// TestTheLogOfAnIdleHubIsEmpty: a hub without open work logs no warning. Temporary problems, such
// as conflicts with other writers, cause none either.
func TestTheLogOfAnIdleHubIsEmpty(t *testing.T) {
	w := newHubEnv(t, 2)
	var log record
	w.start("one", func(c *hub.Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	})
	w.place("v1")
	w.staged("")
	w.await("crp", w.name, "ClusterResourcePlacementScheduled", "True")
	w.run(w.name, "")
	w.await("csur", w.name, "Succeeded", "True")
	w.change("v2")
	w.run(w.name+"-2", "")
	w.await("csur", w.name+"-2", "Succeeded", "True")
	time.Sleep(3 * time.Second) // statuses are compared, and watches of kinds begin
	if text := log.String(); text != "" {
		t.Errorf("the log of a hub without problems:\n%s", text)
	}
}

// TestLogBackoffWithoutAnAPIServer: if the API server of a hub does not answer properly, the hub
// logs this at growing intervals, with the answer if it has received one.
func TestLogBackoffWithoutAnAPIServer(t *testing.T) {
	var log record
	h, err := hub.New(hub.Config{Rest: refusing(t), Dialer: memory.NewFleet(), Name: "one", Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	if err := h.Run(ctx); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) > 4 || !strings.Contains(lines[0], "not implemented") || strings.Contains(log.String(), "does not answer") {
		t.Errorf("in 8 s %d lines, want at most 4, which tell of the 501:\n%s", len(lines), log.String())
	}
}

// refusing returns an API server that has no resource at all.
func refusing(t *testing.T) *rest.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotImplemented)
		_, _ = w.Write([]byte(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "not implemented", "code": 501}`))
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}
