package hubapi

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// A refusal says which role allows the request.
func TestARefusalNamesTheRole(t *testing.T) {
	err := apierrors.NewForbidden(schema.GroupResource{Group: "g", Resource: "runs"}, "r", errors.New(`User "eve" cannot update resource "runs"`))
	want := `User "eve" cannot update resource "runs": the role slipway-cluster-editor allows it`
	if got := explain(err, "", "editor"); !strings.Contains(got.Error(), want) || !apierrors.IsForbidden(got) {
		t.Errorf("%v, want %s", got, want)
	}
}

// A check refuses a command as the command itself is refused, and the API server gets no change.
func TestAHubChecksACommand(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("the API server is asked: %s %s", r.Method, r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		if !strings.Contains(r.URL.Path, "/clusterstagedupdateruns/") {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
			return
		}
		_, _ = io.WriteString(w, `{"apiVersion":"`+placementAPI+`","kind":"ClusterStagedUpdateRun","metadata":{"name":"r"},"spec":{"state":"Run"}}`)
	}))
	defer server.Close()
	h, err := New(Config{Rest: &rest.Config{Host: server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close() }()
	handler, err := h.Handler()
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{
		`{"verb":"Skip","scope":"Stage","name":"canary"}`: "a hub has no Skip of a run",
		`{"verb":"Stop","message":"why"}`:                 "a hub records no reason",
		`{"verb":"Start"}`:                                "spec.state is Run already",
		`{"verb":"Decide"}`:                               "a decision has no verdict",
		`{"verb":"Stop"}`:                                 "",
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/runs/r/commands/check", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if got := w.Body.String(); (w.Code == http.StatusNoContent) != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %d %s, want %q", body, w.Code, got, want)
		}
	}
}

// TestEveryRouteIsGuarded sends bad requests for a change to each route of the handler and of the
// engine: a request from a page of another site, a body that is no JSON, a body that is too long,
// and an unknown field. No request reaches the API server.
func TestEveryRouteIsGuarded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the API server is asked: %s %s", r.Method, r.URL)
	}))
	defer server.Close()
	h, err := New(Config{Rest: &rest.Config{Host: server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = h.Close() }()
	handler, err := h.Handler()
	if err != nil {
		t.Fatal(err)
	}
	for _, route := range []string{
		"POST /v1/runs", "DELETE /v1/runs/r", "POST /v1/runs/r/commands", "POST /v1/runs/r/commands/check", "POST /v1/runs/r/rollback",
		"DELETE /v1/placements/p", "POST /v1/runs/r/catch-up", "PUT /v1/caps/c", "DELETE /v1/caps/c", "DELETE /v1/placements/p/deletion",
		"POST /v1/placements/p/preview", "PUT /v1/placements/p", "POST /v1/nothing",
	} {
		method, path, _ := strings.Cut(route, " ")
		ask := func(body string, headers ...string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			for i := 0; i < len(headers); i += 2 {
				r.Header.Set(headers[i], headers[i+1])
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			return w
		}
		for _, headers := range [][]string{{"Origin", "https://evil.example"}, {"Sec-Fetch-Site", "cross-site"}} {
			if w := ask(`{}`, headers...); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "CrossOrigin") {
				t.Errorf("%s with %s answers %d: %s", route, headers, w.Code, w.Body)
			}
		}
		for _, typ := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""} {
			if w := ask(`{}`, "Content-Type", typ); w.Code != http.StatusUnsupportedMediaType {
				t.Errorf("%s with Content-Type %q answers %d: %s", route, typ, w.Code, w.Body)
			}
		}
	}
	for _, route := range []string{
		"POST /v1/runs", "DELETE /v1/runs/r", "POST /v1/runs/r/commands", "POST /v1/runs/r/rollback", "DELETE /v1/placements/p",
	} {
		method, path, _ := strings.Cut(route, " ")
		for body, want := range map[string]int{
			`{"unheard": 1}`: http.StatusBadRequest, `{} {}`: http.StatusBadRequest, `{`: http.StatusBadRequest, `{}]`: http.StatusBadRequest,
			`{"name":"` + strings.Repeat("x", 5<<20) + `"}`: http.StatusRequestEntityTooLarge,
		} {
			r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != want || w.Header().Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s with %.20s answers %d, want %d: %s", route, body, w.Code, want, w.Body)
			}
		}
	}
}
