package prometheus_test

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/metrics/prometheus"
)

func TestAConfigurationIsChecked(t *testing.T) {
	for _, test := range []struct {
		cfg  prometheus.Config
		want string
	}{
		{prometheus.Config{}, "prometheus: URL: the URL begins with neither"},
		{prometheus.Config{URL: "ftp://x"}, "prometheus: URL: the URL begins with neither"},
		{prometheus.Config{URL: "http:///x"}, "prometheus: URL: the URL has no host"},
		{prometheus.Config{URL: "http://me:" + password + "@x"}, "prometheus: URL: the URL has user info"},
		{prometheus.Config{URL: "http://me:" + password + "@x:port"}, "prometheus: URL: the URL cannot be parsed"},
		{prometheus.Config{URL: "http://x?token=" + password}, "prometheus: URL: the URL has a query"},
		{prometheus.Config{URL: "http://x/a/../b"}, "prometheus: URL: the path of the URL"},
		{prometheus.Config{URL: "http://x", Username: "a", BearerToken: token("")}, "prometheus: of user name"},
		{prometheus.Config{URL: "http://x", BearerTokenFile: "a", BearerToken: token("")}, "prometheus: of user name"},
		{prometheus.Config{URL: "http://x", Username: "a", Headers: http.Header{"authorization": {"b"}}}, "prometheus: of user name"},
		{prometheus.Config{URL: "http://x", Username: "a:b"}, "prometheus: the user name has a colon"},
		{prometheus.Config{URL: "http://x", TLS: &tls.Config{}, Transport: &http.Transport{}}, "prometheus: Transport and TLS"},
		{prometheus.Config{URL: "http://x", Timeout: time.Millisecond}, "prometheus: Timeout is too small"},
		{prometheus.Config{URL: "http://x", MaxLookback: -1}, "prometheus: MaxLookback is too small"},
		{prometheus.Config{URL: "http://x", MaxBytes: -1}, "prometheus: MaxBytes is too small"},
		{prometheus.Config{URL: "http://x", MaxSamples: -1}, "prometheus: MaxSamples is too small"},
		{prometheus.Config{URL: "https://x:9090/prometheus/", BearerTokenFile: "a", Timeout: time.Second}, ""},
	} {
		_, err := prometheus.New(test.cfg)
		if test.want == "" && err == nil {
			continue
		}
		if err == nil || !strings.HasPrefix(err.Error(), test.want) || strings.Contains(err.Error(), password) {
			t.Errorf("%+v: %v; want %s", test.cfg, err, test.want)
		}
	}
}

// TestQueryParameters asks a server that keeps the form of the request.
func TestQueryParameters(t *testing.T) {
	for _, test := range []struct {
		window, deadline time.Duration
		lookback         string
		timeout          []string
	}{
		{time.Millisecond, time.Minute, "1s", []string{"10s"}},
		{1900 * time.Millisecond, time.Minute, "1s", []string{"10s"}},
		{160 * time.Second, 2500 * time.Millisecond, "2m40s", []string{"2s", "3s"}},
		{320 * time.Second, time.Minute, "5m0s", []string{"10s"}},
		{24 * time.Hour, time.Minute, "5m0s", []string{"10s"}},
	} {
		var form map[string][]string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ParseForm() == nil {
				form = r.Form
			}
			_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"scalar","result":[1,"5"]}}`)
		}))
		ctx, cancel := context.WithTimeout(t.Context(), test.deadline)
		got, err := provider(t, prometheus.Config{URL: server.URL}).Measure(ctx, backend.MetricQuery{Text: "x", Window: test.window})
		cancel()
		server.Close()
		if diff := cmp.Diff([]backend.Sample{{Value: 5}}, got); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
		asked := strings.Join(form["timeout"], " ")
		if !strings.Contains(strings.Join(test.timeout, " "), asked) || asked == "" {
			t.Errorf("window %s: timeout %s", test.window, asked)
		}
		delete(form, "timeout")
		if diff := cmp.Diff(map[string][]string{"query": {"x"}, "lookback_delta": {test.lookback}}, form); diff != "" {
			t.Errorf("window %s: %s", test.window, diff)
		}
	}
}

// TestAnswersOfOtherServers contains answers that a real server does not give on demand.
func TestAnswersOfOtherServers(t *testing.T) {
	vector := func(more string) string {
		return `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"b"},"value":[1,"5"]}]}` + more + `}`
	}
	const noAPI = "the answer is not one of the API of Prometheus: "
	of := func(kind, result string) string {
		return `{"status":"success","data":{"resultType":"` + kind + `","result":` + result + `}}`
	}
	for _, test := range []struct {
		name   string
		status int
		body   string
		want   string // "" for one sample
	}{
		{"a remark", 200, vector(`,"infos":["PromQL info: metric might not be a counter"]`), ""},
		{"a remark among the warnings", 200, vector(`,"warnings":["PromQL info: metric might not be a counter"]`), ""},
		{"a part", 200, vector(`,"warnings":["store 10: unavailable\n` + secret + `"]`), "the answer may be incomplete: store 10: "},
		{
			"a histogram", 200,
			`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"histogram":[1,{"count":"1","sum":"2"}]}]}}`,
			"the result is a native histogram",
		},
		{"an error in a 200", 200, `{"status":"error","errorType":"internal","error":"disk"}`, "the server failed: disk"},
		{"a page", 200, `<html>` + secret, "the answer is not one of the API of Prometheus"},
		{"nothing", 200, ``, "the answer is not one of the API of Prometheus"},
		{"another result", 200, `{"status":"success","data":{"resultType":"streams"}}`, "the answer is not one of the API of Prometheus"},
		{"no status", 200, `{"data":{"resultType":"vector","result":[{"metric":{},"value":[1,"5"]}]}}`, noAPI + `it has no status "success"`},
		{"another status", 200, `{"status":"ok","data":{"resultType":"vector","result":[]}}`, noAPI + `it has no status "success"`},
		{"status of no text", 200, `{"status":true,"data":{"resultType":"vector","result":[{}]}}`, "the answer is not one of the API of Prometheus"},
		{"an empty object", 200, `{}`, noAPI + `it has no status "success"`},
		{"no value", 200, of("vector", `[{}]`), noAPI + "element 0: it has no value"},
		{"no value but labels", 200, of("vector", `[{"metric":{"a":"b"}}]`), noAPI + "element 0: it has no value"},
		{"one without", 200, of("vector", `[{"value":[1,"5"]},{"value":null}]`), noAPI + "element 1: it has no value"},
		{"an empty pair", 200, of("vector", `[{"value":[]}]`), noAPI + "element 0: its value is not a pair"},
		{"a time alone", 200, of("vector", `[{"value":[1]}]`), noAPI + "element 0: its value is not a pair"},
		{"three of them", 200, of("vector", `[{"value":[1,"5",6]}]`), noAPI + "element 0: its value is not a pair"},
		{"no number", 200, of("vector", `[{"value":[1,null]}]`), noAPI + "element 0: its value has no number"},
		{"a bare number", 200, of("vector", `[{"value":[1,5]}]`), noAPI + "element 0: its value has no number"},
		{"an empty number", 200, of("vector", `[{"value":[1,""]}]`), noAPI + "element 0: its value is not a number"},
		{"no time", 200, of("vector", `[{"value":[null,"5"]}]`), noAPI + "element 0: its value has no time"},
		{"an object", 200, of("vector", `[{"value":{}}]`), noAPI + "element 0: its value is not a pair"},
		{"a null histogram", 200, of("vector", `[{"histogram":null}]`), noAPI + "element 0: it has no value"},
		{"null in a vector", 200, of("vector", `[null]`), noAPI + "element 0: it has no value"},
		{"a vector of null", 200, of("vector", `null`), noAPI + "its result is not an array"},
		{"a vector of an object", 200, of("vector", `{}`), noAPI + "its result is not an array"},
		{"a vector without result", 200, `{"status":"success","data":{"resultType":"vector"}}`, noAPI + "its result is not an array"},
		{"a scalar of null", 200, of("scalar", `null`), noAPI + "it has no value"},
		{"a scalar without result", 200, `{"status":"success","data":{"resultType":"scalar"}}`, noAPI + "it has no value"},
		{"an empty scalar", 200, of("scalar", `[]`), noAPI + "its value is not a pair"},
		{"half a scalar", 200, of("scalar", `[1]`), noAPI + "its value is not a pair"},
		{"a scalar of nulls", 200, of("scalar", `[null,null]`), noAPI + "its value has no time"},
		{"data of null", 200, `{"status":"success","data":null}`, noAPI + "it has no resultType"},
		{"no result", 200, `{"status":"success","data":{}}`, "the answer is not one of the API of Prometheus"},
		{"a page of an error", 502, `<html>` + secret, "the server refused: server error: 502"},
		{"a timeout", 503, `{"status":"error","errorType":"timeout","error":"query timed out"}`, "the server gave the query up: query timed out"},
		{"a secret", 422, `{"status":"error","errorType":"execution","error":"no: ` + secret + `"}`, "the query failed: no: [secret]"},
		{
			"a long text", 422, `{"status":"error","errorType":"execution","error":"` + strings.Repeat("long ", 9999) + `"}`,
			"the query failed: long long",
		},
		{"lines and controls", 422, `{"status":"error","errorType":"execution","error":"a\nb\u001b[31mc"}`, "the query failed: a b [31mc"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			}))
			defer server.Close()
			p := provider(t, prometheus.Config{URL: server.URL, BearerToken: token(secret)})
			got, err := measure(t.Context(), p, "x")
			if test.want == "" {
				if diff := cmp.Diff([]backend.Sample{{Labels: map[string]string{"a": "b"}, Value: 5}}, got); err != nil || diff != "" {
					t.Errorf("%v %s", err, diff)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), "prometheus: "+test.want) {
				t.Fatalf("%v, %v; want %s", got, err, test.want)
			}
			if len(err.Error()) > 600 || strings.Contains(err.Error(), secret) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestRedirects(t *testing.T) {
	var strayed bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strayed = true }))
	defer other.Close()
	for _, test := range []struct {
		name, to string
		status   int
		want     string
	}{
		{"the same host", "/b/api/v1/query", http.StatusTemporaryRedirect, ""},
		{"another port", other.URL, http.StatusTemporaryRedirect, "the server redirects to another host"},
		{"user info", "http://me:" + password + "@HOST/b", http.StatusTemporaryRedirect, "the server redirects to another host"},
		{"another scheme", "https://HOST/b", http.StatusPermanentRedirect, "the server redirects to another host"},
		{"a lost body", "/b/api/v1/query", http.StatusFound, "the server redirects a POST so that its body is lost"},
		{"for ever", "/a/api/v1/query", http.StatusTemporaryRedirect, "the server redirects more than 5 times"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Header.Get("Authorization") != "Bearer "+secret:
					w.WriteHeader(http.StatusUnauthorized)
				case strings.HasPrefix(r.URL.Path, "/b"):
					_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"scalar","result":[1,"5"]}}`)
				default:
					w.Header().Set("Location", strings.ReplaceAll(test.to, "HOST", r.Host))
					w.WriteHeader(test.status)
				}
			}))
			defer server.Close()
			p := provider(t, prometheus.Config{URL: server.URL, BearerToken: token(secret)})
			got, err := measure(t.Context(), p, "x")
			if test.want == "" {
				if err != nil || len(got) != 1 {
					t.Errorf("%v, %v", got, err)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), "prometheus: "+test.want) || strings.Contains(err.Error(), password) || strayed {
				t.Errorf("%v, %v, strayed %t", got, err, strayed)
			}
		})
	}
}

func TestAServerThatHangs(t *testing.T) {
	release := make(chan struct{})
	for name, handler := range map[string]http.HandlerFunc{
		"no answer": func(http.ResponseWriter, *http.Request) { <-release },
		"half an answer": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"status":`)
			_ = http.NewResponseController(w).Flush()
			<-release
		},
	} {
		server := httptest.NewServer(handler)
		defer server.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := measure(ctx, provider(t, prometheus.Config{URL: server.URL}), "x")
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "prometheus: there was no answer in time") {
			t.Errorf("%s, deadline of the context: %v", name, err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		if _, err = measure(ctx, provider(t, prometheus.Config{URL: server.URL}), "x"); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, canceled: %v", name, err)
		}
		hasty := provider(t, prometheus.Config{URL: server.URL, Timeout: time.Second})
		if _, err = measure(t.Context(), hasty, "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s, timeout: %v", name, err)
		}
	}
	close(release)
}

func TestAnAnswerThatGrowsWhenItIsDecompressed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, `{"status":"success","error":"`+strings.Repeat("x", 11<<20)+`"}`)
		_ = z.Close()
	}))
	defer server.Close()
	got, err := measure(t.Context(), provider(t, prometheus.Config{URL: server.URL}), "x")
	if err == nil || !strings.Contains(err.Error(), "the answer has more than 10485760 bytes") {
		t.Errorf("%v, %v", got, err)
	}
}

func TestAServerThatIsNotThere(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	for url, want := range map[string]string{
		server.URL:               "dial: connection refused",
		"http://nowhere.invalid": "the host of the URL",
	} {
		_, err := measure(t.Context(), provider(t, prometheus.Config{URL: url}), "x")
		if err == nil || !strings.HasPrefix(err.Error(), "prometheus: "+want) || strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestProbe(t *testing.T) {
	for want, answer := range map[string]func(w http.ResponseWriter, r *http.Request){
		"prometheus: the server ignores lookback_delta": func(http.ResponseWriter, *http.Request) {},
		"prometheus: the server refused: client error: 401": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
		},
		"prometheus: the server refused: status 502 Bad Gateway": func(w http.ResponseWriter, r *http.Request) {
			if r.FormValue("lookback_delta") == "none" {
				w.WriteHeader(http.StatusBadGateway)
			}
		},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer(w, r)
			_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`)
		}))
		err := provider(t, prometheus.Config{URL: server.URL}).Probe(t.Context())
		server.Close()
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

// TestQuestionsAtTheSameTime has each answered with its own number, by a token of its own.
func TestQuestionsAtTheSameTime(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"scalar","result":[1,"%s"]}}`, r.FormValue("query"))
	}))
	defer server.Close()
	var tokens atomic.Int32
	p := provider(t, prometheus.Config{URL: server.URL, BearerToken: func(context.Context) (string, error) {
		return fmt.Sprint("token-", tokens.Add(1)), nil
	}})
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			got, err := measure(t.Context(), p, fmt.Sprint(i))
			if err != nil || len(got) != 1 || got[0].Value != float64(i) {
				t.Errorf("%d: %v, %v", i, got, err)
			}
		})
	}
	all.Wait()
	if n := tokens.Load(); n != 32 {
		t.Errorf("%d tokens were asked for", n)
	}
}
