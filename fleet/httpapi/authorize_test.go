package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// permits is the type of Options.Authorize.
type permits = func(ctx context.Context, by approval.Identity, verb httpapi.Verb, placement string) error

// authorized returns a handler for ann with a function that authorizes, and its log.
func (v *env) authorized(may permits) (http.Handler, *bytes.Buffer) {
	v.t.Helper()
	log := &bytes.Buffer{}
	h, err := httpapi.NewHandler(v.engine, httpapi.Options{
		Authenticate: func(*http.Request) (approval.Identity, error) { return ann, nil }, Authorize: may,
		Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	v.must(err)
	return h, log
}

// only permits a verb on a placement.
func only(verb httpapi.Verb, placement string) permits {
	return func(_ context.Context, _ approval.Identity, v httpapi.Verb, p string) error {
		if v == verb && p == placement {
			return nil
		}
		return errors.New("no such right")
	}
}

// Every route asks Authorize about the verb that the documentation names. A refused request is
// answered with 403 or with an empty list, and changes nothing.
func TestEveryRouteIsAuthorized(t *testing.T) {
	v := newEnv(t)
	v.must(v.engine.SetCap(t.Context(), "all", 5))
	var asked []string
	h, log := v.authorized(func(_ context.Context, by approval.Identity, verb httpapi.Verb, placement string) error {
		if by.Name != ann.Name {
			t.Errorf("asked about %v", by)
		}
		asked = append(asked, string(verb)+" "+placement)
		return errors.New("no such right")
	})
	got := map[string]string{}
	for _, r := range documented(t) {
		path := strings.NewReplacer("{placement}", "shop", "{run}", "shop-2", "{cap}", "all", "{cluster}", "eu-1", "{strategy}", "careful", "{index}", "0").Replace(r[2])
		body := map[string]string{"/v1/runs": `{"name":"new","placement":"shop"}`, "/v1/runs/{run}/commands": `{"verb":"Abort"}`, "/v1/runs/{run}/commands/check": `{"verb":"Abort"}`}[r[2]]
		asked = nil
		w := request(h, r[1], path, body)
		if empty := w.Code == 200 && strings.Contains(w.Body.String(), `{"items":`) && !strings.Contains(w.Body.String(), "shop"); !empty && (w.Code != 403 || reason(t, w) != "Forbidden") {
			t.Errorf("%s %s: %d %s", r[1], path, w.Code, w.Body)
		}
		got[r[1]+" "+r[2]] = strings.Join(asked, ", ")
	}
	want := map[string]string{}
	for _, pattern := range httpapi.Routes() {
		method, path, _ := strings.Cut(pattern, " ")
		verb, placement := httpapi.Get, "shop"
		switch last := path[strings.LastIndex(path, "/")+1:]; {
		case method == "GET" && last != "preview":
		case last == "preview", last == "diff", last == "forecast", last == "selection", last == "drift":
			verb = httpapi.Preview
		case last == "rollback":
			verb = httpapi.Rollback
		case last == "runs", last == "catch-up":
			verb = httpapi.Create
		case last == "commands", last == "check":
			verb = httpapi.Operate
		case method == "PUT", last == "{strategy}", last == "{cap}":
			verb = httpapi.Declare
		default:
			verb = httpapi.Delete
		}
		if strings.Contains(path, "/strategies") || strings.Contains(path, "/caps") {
			placement = ""
		}
		want[pattern] = string(verb) + " " + placement
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	if s, err := v.engine.Run("shop-2").Status(t.Context()); err != nil || s.Run.State != stages.Running {
		t.Errorf("shop-2 is %s, %v", s.Run.State, err)
	}
	if caps, err := v.engine.Caps(t.Context()); err != nil || len(caps) != 1 || caps[0].Limit != 5 {
		t.Errorf("the caps are %v, %v", caps, err)
	}
	if names, err := v.engine.Placements(t.Context()); err != nil || len(names) != 1 {
		t.Errorf("the placements are %v, %v", names, err)
	}
	for _, want := range []string{"level=WARN", "by=ann", "verb=operate", `object="run shop-2"`, "placement=shop", `reason="no such right"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not have %s", want)
		}
	}
}

// A command needs the right to its verb: a decision to approve, a rollback to rollback, and all
// others to operate.
func TestCommandsAreAuthorizedByTheirVerb(t *testing.T) {
	v := newEnv(t)
	for body, verb := range map[string]httpapi.Verb{
		`{"verb":"Decide","name":"x"}`: httpapi.Approve,
		`{"verb":"Stop"}`:              httpapi.Operate,
		`{"verb":"Bypass"}`:            httpapi.Operate,
		`{"verb":"nonsense"}`:          httpapi.Operate,
	} {
		for _, right := range []httpapi.Verb{httpapi.Get, httpapi.Approve, httpapi.Rollback, httpapi.Operate, httpapi.Create, httpapi.Delete} {
			if right == verb {
				continue
			}
			h, _ := v.authorized(only(right, "shop"))
			w := request(h, "POST", "/v1/runs/shop-2/commands", body)
			if w.Code != 403 || !strings.Contains(w.Body.String(), "ann may not "+string(verb)+" run shop-2: no such right") {
				t.Errorf("%s with the right to %s: %d %s", body, right, w.Code, w.Body)
			}
		}
	}
	h, _ := v.authorized(only(httpapi.Operate, "shop"))
	for _, scope := range []string{"Stage", "Group"} {
		w := request(h, "POST", "/v1/runs/shop-2/commands", `{"verb":"Skip","scope":"`+scope+`","name":"canary"}`)
		if w.Code != 403 || !strings.Contains(w.Body.String(), "ann may not approve run shop-2") {
			t.Errorf("Skip of a %s, and so of its approvals, with the right to operate: %d %s", scope, w.Code, w.Body)
		}
	}
	if w := request(h, "POST", "/v1/runs/shop-2/commands", `{"verb":"Stop"}`); w.Code != 204 {
		t.Errorf("Stop with the right to operate: %d %s", w.Code, w.Body)
	}
}

// An identity sees only the placements that it may get, and cannot tell whether a run that it may
// not get exists.
func TestAnIdentitySeesItsPlacements(t *testing.T) {
	v := newEnv(t)
	v.must(v.source.Put(object("Namespace", "", "bank", "")))
	v.must(v.engine.PutPlacement(t.Context(), fleet.Placement{Name: "bank", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "bank"}}}))
	_, err := v.engine.CreateRun(t.Context(), fleet.RunSpec{Name: "bank-1", Placement: "bank", Strategy: strategy(stages.Task{Type: stages.Approval}), Starter: ann})
	v.must(err)
	v.event("bank-1", stages.ApprovalRequested)
	h, _ := v.authorized(only(httpapi.Get, "shop"))
	for path, want := range map[string]string{
		"/v1/placements": "shop", "/v1/runs": "shop-2", "/v1/approvals": "shop-2", "/v1/leases": "shop-2", "/v1/runs?placement=shop": "shop-1",
	} {
		if w := request(h, "GET", path, ""); w.Code != 200 || !strings.Contains(w.Body.String(), want) || strings.Contains(w.Body.String(), "bank") {
			t.Errorf("GET %s: %d %s", path, w.Code, w.Body)
		}
	}
	for path, want := range map[string]string{
		"/v1/runs?placement=bank": "ann may not get placement bank", "/v1/approvals?placement=bank": "ann may not get placement bank",
		"/v1/placements/bank": "ann may not get placement bank", "/v1/placements/none": "ann may not get placement none",
		"/v1/runs/bank-1": "ann may not get run bank-1: no such right", "/v1/runs/none": "ann may not get run none: no such right",
		"/v1/runs/bank-1/events?follow=true": "ann may not get run bank-1", "/v1/caps": "ann may not get /v1/caps",
	} {
		if w := request(h, "GET", path, ""); w.Code != 403 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("GET %s: %d %s, want %s", path, w.Code, w.Body, want)
		}
	}
	h, _ = v.authorized(only(httpapi.Get, ""))
	if w := request(h, "GET", "/v1/runs/none", ""); w.Code != 404 {
		t.Errorf("a run that does not exist, for somebody who may know it: %d %s", w.Code, w.Body)
	}
	h, _ = v.authorized(only(httpapi.Create, "bank"))
	if w := request(h, "POST", "/v1/runs", `{"name":"shop-3","placement":"shop"}`); w.Code != 403 || !strings.Contains(w.Body.String(), "ann may not create a run of placement shop") {
		t.Errorf("a run of another placement: %d %s", w.Code, w.Body)
	}
}

// A cluster that waits for a cap is explained without the runs of placements that the caller may
// not get.
func TestAnExplanationNamesNoOtherPlacement(t *testing.T) {
	v := newEnv(t)
	v.must(v.engine.SetCap(t.Context(), "night", 1))
	for _, name := range []string{"bank", "depot"} {
		v.must(v.source.Put(object("Namespace", "", name, "")))
		v.must(v.engine.PutPlacement(t.Context(), fleet.Placement{Name: name, Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: name}}}))
		capped := strategy()
		capped.Cap, capped.MinHealthy = "night", metav1.Duration{Duration: time.Hour}
		_, err := v.engine.CreateRun(t.Context(), fleet.RunSpec{Name: name + "-1", Placement: name, Strategy: capped, Starter: ann})
		v.must(err)
		if name == "bank" {
			v.event("bank-1", stages.ClusterApplied)
		}
	}
	explained := func(may permits) string {
		h, _ := v.authorized(may)
		for {
			w := request(h, "GET", "/v1/runs/depot-1/clusters/eu-1/explanation", "")
			if w.Code != 200 || strings.Contains(w.Body.String(), "waits for cap night") {
				return w.Body.String()
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	if got := explained(only(httpapi.Get, "depot")); !strings.Contains(got, "waits for cap night, which other runs use") || strings.Contains(got, "bank") {
		t.Errorf("for somebody who may get depot: %s", got)
	}
	if got := explained(func(context.Context, approval.Identity, httpapi.Verb, string) error { return nil }); !strings.Contains(got, "run bank-1 1") {
		t.Errorf("for somebody who may get everything: %s", got)
	}
}

// An Error of Authorize is the answer, also in lists.
func TestAuthorizeMayAnswer(t *testing.T) {
	v := newEnv(t)
	h, _ := v.authorized(func(context.Context, approval.Identity, httpapi.Verb, string) error {
		return &httpapi.Error{Code: 503, Reason: "Unavailable", Message: "the server that decides is down"}
	})
	for _, path := range []string{"/v1/runs", "/v1/runs/shop-2", "/v1/placements/shop"} {
		if w := request(h, "GET", path, ""); w.Code != 503 || reason(t, w) != "Unavailable" {
			t.Errorf("GET %s: %d %s", path, w.Code, w.Body)
		}
	}
}

// The body is read before the caller is authorized, so that no caller can be authorized long before
// the request is carried out.
func TestTheBodyIsReadBeforeTheCallerIsAuthorized(t *testing.T) {
	v := newEnv(t)
	read := false
	h, _ := v.authorized(func(context.Context, approval.Identity, httpapi.Verb, string) error {
		if !read {
			t.Error("authorized before the body was read")
		}
		return errors.New("no such right")
	})
	for _, path := range []string{"DELETE /v1/runs/shop-2", "POST /v1/runs/shop-2/rollback", "POST /v1/runs/shop-2/commands", "PUT /v1/placements/shop", "POST /v1/placements/shop/diff"} {
		method, path, _ := strings.Cut(path, " ")
		read = false
		r := httptest.NewRequest(method, "http://engine"+path, io.MultiReader(strings.NewReader("{}"), whenRead(func() { read = true })))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != 403 {
			t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
	}
}

// whenRead is an empty reader that is called when it is read.
type whenRead func()

func (f whenRead) Read([]byte) (int, error) { f(); return 0, io.EOF }

// A damaged run can be deleted by whoever may delete without a placement, and nobody else is told
// about the damage.
func TestADamagedRunIsAuthorizedWithoutItsPlacement(t *testing.T) {
	v := newEnv(t)
	rec, err := v.store.Get(t.Context(), "run/shop-1")
	v.must(err)
	_, err = v.store.Put(t.Context(), "run/shop-1", []byte("{"), rec.Revision)
	v.must(err)
	h, _ := v.authorized(only(httpapi.Delete, "shop"))
	if w := request(h, "DELETE", "/v1/runs/shop-1", `{"force":true}`); w.Code != 403 || strings.Contains(w.Body.String(), "damaged") {
		t.Errorf("with the right to another placement: %d %s", w.Code, w.Body)
	}
	h, _ = v.authorized(only(httpapi.Delete, ""))
	if w := request(h, "DELETE", "/v1/runs/shop-1", `{"force":true}`); w.Code != 204 {
		t.Errorf("with the right to what belongs to no placement: %d %s", w.Code, w.Body)
	}
}
