package httpapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/stages"
)

// A client declares placements and strategies, and replaces only the version that it has read. A
// dry run checks the same and changes nothing.
func TestAClientDeclaresPlacementsAndStrategies(t *testing.T) {
	bothWays(t, func(t *testing.T, v *env, c *httpapi.Client) {
		ctx := t.Context()
		changed := func(err error) {
			t.Helper()
			if !errors.Is(err, errdef.ErrChanged) || !errors.Is(err, backend.ErrConflict) {
				t.Errorf("want a conflict, got %v", err)
			}
		}
		read, err := c.Placement("shop").Get(ctx)
		v.must(err)
		p := read.Placement
		p.HistoryLimit = 7
		v.must(c.PutPlacement(ctx, p, httpapi.Declaring{Version: read.Version, DryRun: true}))
		changed(c.PutPlacement(ctx, p, httpapi.Declaring{New: true}))
		v.must(c.PutPlacement(ctx, p, httpapi.Declaring{Version: read.Version}))
		changed(c.PutPlacement(ctx, p, httpapi.Declaring{Version: read.Version}))
		changed(c.PutPlacement(ctx, p, httpapi.Declaring{Version: read.Version, DryRun: true}))
		p.HistoryLimit = -1
		for _, o := range []httpapi.Declaring{{}, {DryRun: true}} {
			if err := c.PutPlacement(ctx, p, o); err == nil || !strings.Contains(err.Error(), "historyLimit") {
				t.Errorf("%+v: %v", o, err)
			}
		}
		now, err := c.Placement("shop").Get(ctx)
		if err != nil || now.HistoryLimit != 7 || now.Version == read.Version {
			t.Errorf("%+v, %v", now, err)
		}

		s := strategy()
		s.Name = "careful"
		v.must(c.PutStrategy(ctx, s, httpapi.Declaring{New: true, DryRun: true}))
		v.must(c.PutStrategy(ctx, s, httpapi.Declaring{New: true}))
		changed(c.PutStrategy(ctx, s, httpapi.Declaring{New: true}))
		all, err := c.Strategies(ctx)
		equal(t, "Strategies", all[0].Strategy, err, s, nil)
		s.Stages[0].Name = "first"
		v.must(c.PutStrategy(ctx, s, httpapi.Declaring{Version: all[0].Version}))
		changed(c.PutStrategy(ctx, s, httpapi.Declaring{Version: all[0].Version}))
		plan, err := c.Preview(ctx, fleet.RunSpec{Placement: "shop", Strategy: stages.Strategy{Name: "careful"}})
		if err != nil || plan.Stages[0].Name != "first" {
			t.Errorf("%v, %v", plan, err)
		}
		v.must(c.DeleteStrategy(ctx, "careful"))
		if err := c.DeleteStrategy(ctx, "careful"); !errors.Is(err, backend.ErrNotFound) {
			t.Error(err)
		}
	})
}

// A dry run is refused if the PUT would be, because of the owner or of a deletion.
func TestADryRunOfAPlacementOfAProgram(t *testing.T) {
	bothWays(t, func(t *testing.T, v *env, c *httpapi.Client) {
		ctx := t.Context()
		read, err := c.Placement("shop").Get(ctx)
		v.must(err)
		p := read.Placement
		p.Owner = "other"
		for _, o := range []httpapi.Declaring{{}, {DryRun: true}, {Version: read.Version}, {Version: read.Version, DryRun: true}} {
			if err := c.PutPlacement(ctx, p, o); !errors.Is(err, backend.ErrConflict) || !strings.Contains(err.Error(), "owner") && !strings.Contains(err.Error(), "belongs") {
				t.Errorf("%+v: %v", o, err)
			}
		}
		p = read.Placement
		p.HistoryLimit++
		v.members.SetDown("eu-1", true) // so that the deletion does not end
		if err := c.Placement("shop").Delete(ctx, fleet.DeleteOptions{}); !errors.Is(err, approval.ErrRefused) || !strings.Contains(err.Error(), "has run shop-2, which is Running") {
			t.Errorf("a deletion with a run in progress: %v", err)
		}
		v.must(c.Placement("shop").Delete(ctx, fleet.DeleteOptions{Force: true}))
		for _, o := range []httpapi.Declaring{{}, {DryRun: true}, {Version: read.Version}, {Version: read.Version, DryRun: true}} {
			if err := c.PutPlacement(ctx, p, o); !errors.Is(err, errdef.ErrDeleting) {
				t.Errorf("%+v: %v", o, err)
			}
		}
	})
}

// A declaration over plain HTTP: the ETag of an answer is the If-Match of a PUT.
func TestPreconditionsOfAPut(t *testing.T) {
	v := newEnv(t)
	h := v.handler()
	do := func(method, path string, body any, headers ...string) *httptest.ResponseRecorder {
		text, err := json.Marshal(body)
		v.must(err)
		r := httptest.NewRequest(method, path, bytes.NewReader(text))
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	s := strategy()
	s.Name = "careful"
	if w := do("PUT", "/v1/strategies/careful", s); w.Code != http.StatusNoContent {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	tag := do("GET", "/v1/strategies/careful", nil).Header().Get("ETag")
	p, err := v.engine.Placement("shop").Get(t.Context())
	v.must(err)
	for _, c := range []struct {
		path    string
		body    any
		headers []string
		code    int
		want    string
	}{
		{"/v1/strategies/careful", s, []string{"If-Match", tag}, http.StatusNoContent, ""},
		{"/v1/strategies/careful", s, []string{"If-Match", `"x"`}, http.StatusPreconditionFailed, `"Changed"`},
		{"/v1/strategies/careful", s, []string{"If-None-Match", "*"}, http.StatusPreconditionFailed, `"Changed"`},
		{"/v1/strategies/careful", s, []string{"If-Match", "x"}, http.StatusBadRequest, "want one ETag"},
		{"/v1/strategies/careful", s, []string{"If-Match", `"x", "y"`}, http.StatusBadRequest, "want one ETag"},
		{"/v1/strategies/careful", s, []string{"If-Match", `"x"`, "If-None-Match", "*"}, http.StatusBadRequest, "want *, and no If-Match"},
		{"/v1/strategies/other", s, nil, http.StatusBadRequest, `name is \"careful\" in the body, and \"other\" in the path`},
		{"/v1/placements/other", p, nil, http.StatusBadRequest, `name is \"shop\" in the body`},
		{"/v1/strategies/careful?dryRun=perhaps", s, nil, http.StatusBadRequest, "dryRun"},
		{"/v1/strategies/careful", map[string]any{"name": "careful", "stagez": 1}, nil, http.StatusBadRequest, "stagez"},
		{"/v1/strategies/careful", map[string]any{"name": "careful"}, nil, http.StatusUnprocessableEntity, "stages"},
	} {
		if w := do("PUT", c.path, c.body, c.headers...); w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %v: %d %s, want %d %s", c.path, c.headers, w.Code, w.Body, c.code, c.want)
		}
	}
	if got := do("GET", "/v1/placements/shop", nil).Header().Get("ETag"); len(got) != len(tag) {
		t.Errorf("ETag %s", got)
	}
}
