package store_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/internal/kubetest"
	"github.com/slipway-dev/slipway/backend/kube/store"
	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// spoiled returns two stores in one namespace: the requests of the first suffer
// faults.
func spoiled(t *testing.T) (*store.Store, *store.Store, *kubeenv.Faults) {
	t.Helper()
	server := clusters.Server(t, "one")
	namespace := server.Namespace(t)
	faults := &kubeenv.Faults{}
	cfg := server.Config()
	cfg.Wrap(faults.Wrap)
	return storeOn(t, cfg, namespace), storeOn(t, server.Config(), namespace), faults
}

// unanswered lets the server carry a request out, does something else, and answers
// as a server does that lost its etcd: that it failed, and that the client shall
// repeat it at once.
func unanswered(then func()) kubeenv.Fault {
	return func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		then()
		return statusAnswer(r, http.StatusInternalServerError, metav1.Status{Reason: metav1.StatusReasonServerTimeout}, "0")
	}
}

func statusAnswer(r *http.Request, code int, s metav1.Status, retryAfter string) (*http.Response, error) {
	s.Kind, s.APIVersion, s.Status, s.Code = "Status", "v1", metav1.StatusFailure, int32(code)
	body, err := json.Marshal(s)
	header := http.Header{"Content-Type": {"application/json"}}
	if retryAfter != "" {
		header.Set("Retry-After", retryAfter)
	}
	return &http.Response{
		StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(body)), Request: r,
	}, err
}

// mustPut writes without a fault.
func mustPut(t *testing.T, s backend.Store, key, value string, prev backend.Revision) backend.Revision {
	t.Helper()
	rev, err := s.Put(t.Context(), key, []byte(value), prev)
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

func TestRetriedWriteThatConflictsWithItselfSucceeds(t *testing.T) {
	s, other, faults := spoiled(t)
	for _, verb := range []string{"create", "update"} {
		t.Run(verb, func(t *testing.T) {
			var prev backend.Revision
			if verb == "update" {
				prev = mustPut(t, other, verb, "old", "")
			}
			struck := faults.Add(kubeenv.Rule{Verb: verb, Path: "/secrets", Fault: unanswered(func() {})})
			rev := mustPut(t, s, verb, "new", prev)
			got, err := other.Get(t.Context(), verb)
			want := backend.Record{Key: verb, Value: []byte("new"), Revision: rev}
			if d := cmp.Diff(want, got); err != nil || d != "" || struck() != 1 {
				t.Error(err, d, struck())
			}
		})
	}
}

func TestAStoreWriteWithAnUnknownOutcomeIsNoConflict(t *testing.T) {
	s, other, faults := spoiled(t)
	first := mustPut(t, other, "put", "old", "")
	struck := faults.Add(kubeenv.Rule{Verb: "update", Fault: unanswered(func() {
		now, err := other.Get(t.Context(), "put")
		if err != nil {
			t.Error(err)
		}
		mustPut(t, other, "put", "theirs", now.Revision)
	})})
	_, err := s.Put(t.Context(), "put", []byte("ours"), first)
	kubetest.WantTransient(t, err)

	gone := faults.Add(kubeenv.Rule{Verb: "create", Path: "/secrets", Fault: unanswered(func() { mustDelete(t, other, "create") })})
	created, err := s.Put(t.Context(), "create", []byte("ours"), "")
	if err != nil {
		t.Fatal(err) // the second time it was created
	}
	replaced := faults.Add(kubeenv.Rule{Verb: "update", Fault: unanswered(func() { mustDelete(t, other, "create") })})
	_, err = s.Put(t.Context(), "create", []byte("ours"), created)
	kubetest.WantTransient(t, err)

	rev := mustPut(t, other, "delete", "", "")
	deleted := faults.Add(kubeenv.Rule{Verb: "delete", Fault: unanswered(func() {})})
	kubetest.WantTransient(t, s.Delete(t.Context(), "delete", rev))
	if n := []int{struck(), gone(), replaced(), deleted()}; !slices.Equal(n, []int{1, 1, 1, 1}) {
		t.Errorf("faults that struck: %v", n)
	}
}

// A creation fails with a conflict if the record existed, even if the record is deleted before
// the store reads the reason for the refusal: a run deletes a repeated command when it accepts
// the command.
func TestCreateOfAJustDeletedRecordIsAConflict(t *testing.T) {
	s, other, faults := spoiled(t)
	mustPut(t, other, "command", "theirs", "")
	struck := faults.Add(kubeenv.Rule{Verb: "create", Path: "/secrets", Fault: func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		mustDelete(t, other, "command")
		return resp, err
	}})
	if _, err := s.Put(t.Context(), "command", []byte("ours"), ""); !errors.Is(err, backend.ErrConflict) || struck() != 1 {
		t.Errorf("%v, want a conflict; the fault struck %d times", err, struck())
	}
}

func mustDelete(t *testing.T, s backend.Store, key string) {
	t.Helper()
	now, err := s.Get(t.Context(), key)
	if err == nil {
		err = s.Delete(t.Context(), key, now.Revision)
	}
	if err != nil {
		t.Error(err)
	}
}

func TestBrokenConnectionOfAStoreWriteIsTransient(t *testing.T) {
	for name, c := range map[string]struct {
		fault kubeenv.Fault
		want  string
	}{"before": {kubeenv.ResetBefore(), "old"}, "after": {kubeenv.ResetAfter(), "new"}} {
		t.Run(name, func(t *testing.T) {
			s, other, faults := spoiled(t)
			rev := mustPut(t, other, "a", "old", "")
			faults.Add(kubeenv.Rule{Verb: "update", Fault: c.fault})
			_, err := s.Put(t.Context(), "a", []byte("new"), rev)
			kubetest.WantTransient(t, err)
			if got, err := other.Get(t.Context(), "a"); string(got.Value) != c.want {
				t.Errorf("the value is %q, want %q: %v", got.Value, c.want, err)
			}
		})
	}
}

func TestAStoreAsksAServerThatIsBusyAgain(t *testing.T) {
	s, _, faults := spoiled(t)
	busy := func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
		return statusAnswer(r, http.StatusTooManyRequests, metav1.Status{Reason: metav1.StatusReasonTooManyRequests}, "0")
	}
	rev := mustPut(t, s, "a", "old", "")
	struck := faults.Add(kubeenv.Rule{Times: 3, Fault: busy})
	mustPut(t, s, "a", "new", rev)
	if struck() != 3 {
		t.Errorf("%d requests were answered 429, want 3", struck())
	}
	// A request that the server did not begin leaves no doubt about a refusal.
	faults.Add(kubeenv.Rule{Fault: busy})
	if _, err := s.Put(t.Context(), "a", nil, rev); !errors.Is(err, backend.ErrConflict) {
		t.Errorf("the error is %v, want a conflict", err)
	}
	faults.Add(kubeenv.Rule{Fault: kubeenv.TooManyRequests(0)})
	_, err := s.Get(t.Context(), "a")
	kubetest.WantTransient(t, err)
}

// expire answers a page of a list like a server that has forgotten the version of the first page:
// with a token to continue, or without.
func expire(withToken bool, then func()) kubeenv.Fault {
	return func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
		then()
		s := metav1.Status{Reason: metav1.StatusReasonExpired}
		if withToken {
			token, err := continueNow(r.URL.Query().Get("continue"))
			if err != nil {
				return nil, err
			}
			s.Continue = token
		}
		return statusAnswer(r, http.StatusGone, s, "")
	}
}

// continueNow turns a token into the one for the same place and no moment in
// particular, as a server does.
func continueNow(token string) (string, error) {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", err
	}
	var at map[string]any
	if err := json.Unmarshal(raw, &at); err != nil {
		return "", err
	}
	at["rv"] = -1
	raw, err = json.Marshal(at)
	return base64.RawURLEncoding.EncodeToString(raw), err
}

func TestAStoreListThatExpiresYieldsEveryKeyOnce(t *testing.T) {
	for _, withToken := range []bool{true, false} {
		t.Run(fmt.Sprint(withToken), func(t *testing.T) {
			s, other, faults := spoiled(t)
			var want []string
			for i := range 120 {
				key := fmt.Sprintf("a/%03d", i)
				mustPut(t, other, key, key, "")
				want = append(want, key)
			}
			struck := faults.Add(kubeenv.Rule{Verb: "list", First: 2, Fault: expire(withToken, func() {
				// Delete a record that was yielded, and create one that was not.
				mustDelete(t, other, "a/000")
				mustPut(t, other, "a/120", "", "")
			})})
			got, err := keysOf(t.Context(), s, "a/")
			if d := cmp.Diff(append(want, "a/120"), got); err != nil || d != "" || struck() != 1 {
				t.Error(err, d, struck())
			}
		})
	}
}

func TestAStoreListThatExpiresAgainAndAgainFails(t *testing.T) {
	s, other, faults := spoiled(t)
	for i := range 40 {
		mustPut(t, other, fmt.Sprintf("a/%03d", i), "", "")
	}
	faults.Add(kubeenv.Rule{Verb: "list", First: 2, Times: -1, Fault: kubeenv.Gone()})
	got, err := keysOf(t.Context(), s, "a/")
	kubetest.WantTransient(t, err)
	if len(got) != 32 {
		t.Errorf("%d keys came before, want the first page of 32", len(got))
	}
}

func keysOf(ctx context.Context, s backend.Store, prefix string) (keys []string, err error) {
	for r, err := range s.List(ctx, prefix) {
		if err != nil {
			return keys, err
		}
		keys = append(keys, r.Key)
	}
	return keys, nil
}

// TestQuotaConflictIsNoRecordConflict is about the conflict of a quota with
// many concurrent writers.
func TestQuotaConflictIsNoRecordConflict(t *testing.T) {
	s, other, faults := spoiled(t)
	rev := mustPut(t, other, "there", "1", "")
	for what, put := range map[string]func() error{
		"create": func() error { _, err := s.Put(t.Context(), "new", nil, ""); return err },
		"update": func() error { _, err := s.Put(t.Context(), "there", []byte("2"), rev); return err },
	} {
		for _, verb := range []string{"create", "update"} {
			faults.Add(kubeenv.Rule{Verb: verb, Fault: func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
				return statusAnswer(r, http.StatusConflict, metav1.Status{
					Reason: metav1.StatusReasonConflict, Details: &metav1.StatusDetails{Kind: "resourcequotas", Name: "q"},
				}, "")
			}})
		}
		t.Run(what, func(t *testing.T) { kubetest.WantTransient(t, put()) })
		faults.Heal()
	}
}

// TestNotFoundFromAProxyIsNotAMissingObject is about a proxy with a starting server: a
// record that it does not find may exist.
func TestNotFoundFromAProxyIsNotAMissingObject(t *testing.T) {
	proxy := httptest.NewServer(http.NotFoundHandler())
	defer proxy.Close()
	s := storeOn(t, &rest.Config{Host: proxy.URL}, "records")
	ctx, revision := t.Context(), backend.Revision("7.some-uid")
	_, get := s.Get(ctx, "a")
	_, create := s.Put(ctx, "a", nil, "")
	_, update := s.Put(ctx, "a", nil, revision)
	for what, err := range map[string]error{
		"get": get, "create": create, "update": update, "delete": s.Delete(ctx, "a", revision), "ping": s.Ping(ctx),
		"list": kubetest.LastOf(s.List(ctx, "")), "watch": kubetest.LastOf(s.Watch(ctx, "")), "namespace": s.EnsureNamespace(ctx),
	} {
		t.Run(what, func(t *testing.T) { kubetest.WantTransient(t, err) })
	}
}
