package httpjson_test

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/metrics/httpjson"
)

const (
	secret   = "s3cr3t-t0ken-of-the-host"
	password = "p4ssw0rd-of-the-host"
)

// loopback permits the addresses of the services of tests.
func loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

func provider(t *testing.T, cfg httpjson.Config) *httpjson.Provider {
	t.Helper()
	p, err := httpjson.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func measure(ctx context.Context, p *httpjson.Provider, query string) ([]backend.Sample, error) {
	return p.Measure(ctx, backend.MetricQuery{Text: query, Window: time.Minute})
}

// refused reports that an error is not as it should be.
func refused(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.HasPrefix(err.Error(), "httpjson: "+want) || len(err.Error()) > 600 {
		t.Errorf("%v; want %s", err, want)
		return
	}
	for _, hidden := range []string{secret, password, "127.0.0.1", "\n"} {
		if strings.Contains(err.Error(), hidden) {
			t.Errorf("the error has %q: %v", hidden, err)
		}
	}
}

func TestValues(t *testing.T) {
	const document = `{
		"n": 1.5, "text": "0.25", "padded": " 7 ", "nan": "NaN", "inf": "-Inf", "word": "many", "null": null, "yes": true, "huge": 1e999,
		"hugeText": "1e999", "zero": 0, "exp": 2e3,
		"list": [1, "2", null, 3], "empty": [], "mixed": [1, true], "nested": [[1]], "data": [{"value": 10}, {"value": "20"}],
		"by": [
			{"labels": {"cluster": "a"}, "value": 1},
			{"labels": {"cluster": "b"}, "value": null},
			{"labels": {"cluster": "c"}, "value": "NaN"}
		],
		"bare": [{"labels": {}}], "odd": [{"labels": {"cluster": 1}, "value": 1}], "odder": [{"labels": [], "value": 1}],
		"": {"": 4}, "a/b": 5, "m~n": 6, "~1": 8, "with space": 9, "50%": 11, "ü": 12, "deep": {"0": {"1": 13}}
	}`
	of := func(cluster string, v float64) backend.Sample {
		return backend.Sample{Labels: map[string]string{"cluster": cluster}, Value: v}
	}
	one := func(v float64) []backend.Sample { return []backend.Sample{{Value: v}} }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, document) }))
	defer server.Close()
	p := provider(t, httpjson.Config{Hosts: []httpjson.Host{{URL: server.URL}}, Networks: loopback(), MaxSamples: 4})
	for _, test := range []struct {
		pointer string
		want    []backend.Sample
		problem string
	}{
		{"#/n", one(1.5), ""},
		{"#/text", one(0.25), ""},
		{"#/padded", one(7), ""},
		{"#/nan", one(math.NaN()), ""},
		{"#/inf", one(math.Inf(-1)), ""},
		{"#/zero", one(0), ""},
		{"#/exp", one(2000), ""},
		{"#/null", []backend.Sample{}, ""},
		{"#/absent", []backend.Sample{}, ""},
		{"#/absent/of/this", []backend.Sample{}, ""},
		{"#/n/of/a/number", []backend.Sample{}, ""},
		{"#/list", []backend.Sample{{Value: 1}, {Value: 2}, {Value: 3}}, ""},
		{"#/list/1", one(2), ""},
		{"#/list/2", []backend.Sample{}, ""},
		{"#/list/9", []backend.Sample{}, ""},
		{"#/list/-", []backend.Sample{}, ""},
		{"#/empty", []backend.Sample{}, ""},
		{"#/data", []backend.Sample{{Value: 10}, {Value: 20}}, ""},
		{"#/data/1/value", one(20), ""},
		{"#/by", []backend.Sample{of("a", 1), of("c", math.NaN())}, ""},
		{"#//", one(4), ""},
		{"#/a~1b", one(5), ""},
		{"#/m~0n", one(6), ""},
		{"#/~01", one(8), ""},
		{"#/with space", one(9), ""},
		{"#/with%20space", one(9), ""},
		{"#/50%25", one(11), ""},
		{"#/%C3%BC", one(12), ""},
		{"#/deep/0/1", one(13), ""},
		{"#/word", nil, "there is a string that is no number"},
		{"#/hugeText", nil, "there is a string that is no number"},
		{"#/huge", nil, "the number is too large"},
		{"#/yes", nil, "there is a boolean"},
		{"#/deep", nil, "there is an object instead of a number"},
		{"", nil, "there is an object instead of a number"},
		{"#", nil, "there is an object instead of a number"},
		{"#/mixed", nil, "element 1 of the array: there is a boolean"},
		{"#/nested", nil, "element 0 of the array: there is an array"},
		{"#/bare", nil, "element 0 of the array: the object has no value"},
		{"#/odd", nil, `element 0 of the array: the label "cluster" is no string`},
		{"#/odder", nil, "element 0 of the array: labels is no object"},
		{"#/list/01", nil, `the pointer's step "01" leads into an array, and is no index`},
		{"#/list/+1", nil, `the pointer's step "+1" leads into an array`},
		{"#/list/last", nil, `the pointer's step "last" leads into an array`},
		{"#n", nil, "query: the pointer does not begin with #/"},
		{"#/a~2", nil, "query: the pointer has a ~"},
		{"#/a~", nil, "query: the pointer has a ~"},
		{"#/50%", nil, "query: the pointer has a %"},
	} {
		got, err := measure(t.Context(), p, "GET /metrics "+test.pointer)
		if test.problem != "" {
			refused(t, err, test.problem)
			continue
		}
		if diff := cmp.Diff(test.want, got, cmpopts.EquateNaNs()); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", test.pointer, err, diff)
		}
	}
}

func TestDocuments(t *testing.T) {
	for _, test := range []struct {
		document, problem string
	}{
		{"5", ""},
		{" \"5\"\n", ""},
		{"[5]", ""},
		{"", "the answer is not JSON"},
		{"<html>" + secret, "the answer is not JSON"},
		{"{", "the answer is not JSON"},
		{"NaN", "the answer is not JSON"},
		{"5 5", "the answer is more than one JSON value"},
		{"5]", "the answer is more than one JSON value"},
		{strings.Repeat("[", 20_000), "the answer is not JSON"},
		{"[1,2,3,4,5]", "the array has 5 elements, more than 4"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, test.document) }))
		p := provider(t, httpjson.Config{Hosts: []httpjson.Host{{URL: server.URL}}, Networks: loopback(), MaxSamples: 4})
		got, err := measure(t.Context(), p, "/")
		server.Close()
		if test.problem != "" {
			refused(t, err, test.problem)
			continue
		}
		if diff := cmp.Diff([]backend.Sample{{Value: 5}}, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", test.document, err, diff)
		}
	}
}

func TestRequests(t *testing.T) {
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = strings.TrimSpace(r.Method + " " + r.RequestURI + " " + r.Header.Get("Content-Type") + " " + string(body))
		_, _ = io.WriteString(w, "1")
	}))
	defer server.Close()
	port := strings.TrimPrefix(server.URL, "http://127.0.0.1")
	one := provider(t, httpjson.Config{Hosts: []httpjson.Host{{URL: server.URL + "/base/"}}, Networks: loopback()})
	two := []httpjson.Host{{URL: server.URL + "/base"}, {URL: "https://service.invalid"}}
	several := provider(t, httpjson.Config{Hosts: two, Networks: loopback()})
	for _, test := range []struct {
		provider *httpjson.Provider
		query    string
		want     string // a request, or an error
	}{
		{one, "GET /a?x=y&z=%20 #", "GET /base/a?x=y&z=%20"},
		{one, "/a", "GET /base/a"},
		{one, "/a#", "GET /base/a"},
		{one, " \n GET   /a   #  ", "GET /base/a"},
		{one, "/", "GET /base/"},
		{one, "/a%20b/%C3%BC", "GET /base/a%20b/%C3%BC"},
		{one, "POST /q #\n{\"a\": {\"b\": 1}}\n", "POST /base/q application/json {\"a\": {\"b\": 1}}"},
		{one, "POST /q", "POST /base/q application/json"},
		{one, server.URL + "/base/a", "GET /base/a"},
		{several, "GET " + server.URL + "/base/a?b", "GET /base/a?b"},
		{several, "GET HTTP://127.0.0.1" + port + "/base/a", "GET /base/a"},
		{several, "/a", "httpjson: query: there are several hosts"},
		{several, server.URL + "/other", "httpjson: query: its URL is below none"},
		{several, server.URL + "/based", "httpjson: query: its URL is below none"},
		{several, "http://service.invalid/", "httpjson: query: its URL is below none"},
		{several, "https://service.invalid:444/", "httpjson: query: its URL is below none"},
		{several, "https://service.invalid.evil.invalid/", "httpjson: query: its URL is below none"},
		{several, "https://evil.invalid/", "httpjson: query: its URL is below none"},
		{one, "/../a", "httpjson: query: its URL is below none"},
		{one, "/%2e%2e/a", "httpjson: query: its URL is below none"},
		{one, "/..;/admin", "httpjson: query: its URL is below none"},
		{one, "/%252e%252e/admin", "httpjson: query: its URL is below none"},
		{one, "/%c0%ae%c0%ae/admin", "httpjson: query: its URL is below none"},
		{one, "/．．/admin", "httpjson: query: its URL is below none"},
		{one, server.URL + "/base/..;/admin", "httpjson: query: its URL is below none"},
		{one, "/x/..%2f..%2fa", "httpjson: query: its URL is below none"},
		{one, `/x\..\..\a`, "httpjson: query: its URL is below none"},
		{one, "//evil.invalid/a", "httpjson: query: the URL begins with none"},
		{one, "a", "httpjson: query: the URL begins with none"},
		{one, "", "httpjson: query: the URL begins with none"},
		{one, "file:///etc/passwd", "httpjson: query: the URL begins with none"},
		{one, "http:/a", "httpjson: query: the URL begins with none"},
		{one, "http://me:" + password + "@127.0.0.1/base", "httpjson: query: the URL has user info"},
		{one, "DELETE /a", "httpjson: query: it begins with neither GET nor POST"},
		{one, "get /a", "httpjson: query: it begins with neither GET nor POST"},
		{one, "GET /a b", "httpjson: query: the URL has a space"},
		{one, "GET /a\nbody", "httpjson: query: GET has no body"},
		{one, "/%zz", "httpjson: query: the URL cannot be parsed"},
		{one, "/a\x00", "httpjson: query: the URL cannot be parsed"},
	} {
		got = ""
		samples, err := measure(t.Context(), test.provider, test.query)
		if strings.HasPrefix(test.want, "httpjson: ") {
			if err == nil || !strings.HasPrefix(err.Error(), test.want) || got != "" || strings.Contains(err.Error(), password) {
				t.Errorf("%q: %v, request %q; want %s", test.query, err, got, test.want)
			}
			continue
		}
		if err != nil || len(samples) != 1 || got != test.want {
			t.Errorf("%q: %v, %v, %q; want %q", test.query, samples, err, got, test.want)
		}
	}
}

// TestRefusedAddresses dials this machine by its names and addresses, with a service that would
// answer. Another test checks the refusal of other addresses without dialing.
func TestRefusedAddresses(t *testing.T) {
	var reached atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer server.Close()
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	const want = "the host of the URL has an address that is refused"
	// localhost is a name that resolves to loopback, like a name that changes its address after a
	// first look-up.
	hosts := []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"}
	if l, err := net.Listen("tcp6", "[::1]:0"); err == nil && l.Close() == nil {
		hosts = append(hosts, "[::1]", "[::]")
	}
	for _, host := range hosts {
		p := provider(t, httpjson.Config{Hosts: []httpjson.Host{{URL: "http://" + host + ":" + u.Port()}}})
		_, err := measure(t.Context(), p, "/")
		refused(t, err, want)
	}
	other := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	allowed := provider(t, httpjson.Config{Hosts: []httpjson.Host{{URL: server.URL}}, Networks: other})
	_, err = measure(t.Context(), allowed, "/")
	refused(t, err, want)
	if n := reached.Load(); n > 0 {
		t.Errorf("%d requests came through", n)
	}
	named := provider(t, httpjson.Config{Hosts: []httpjson.Host{{URL: "http://localhost:" + u.Port()}}, Networks: loopback()})
	if _, err = measure(t.Context(), named, "/"); err == nil || reached.Load() != 1 {
		t.Errorf("an allowed address is not reached: %v", err)
	}
}

func TestRedirects(t *testing.T) {
	var strayed atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strayed.Add(1) }))
	defer other.Close()
	for _, test := range []struct{ name, query, to, want string }{
		{"beneath", "/", "/base/end", ""},
		{"relative", "/", "end", ""},
		{"a POST", "POST /", "/base/end", ""},
		{"outside of the path", "/", "/end", "the server redirects to another host"},
		{"another port", "/", other.URL + "/base/end", "the server redirects to another host"},
		{"another name of the host", "/", "http://localhost:PORT/base/end", "the server redirects to another host"},
		{"another scheme", "/", "https://HOST/base/end", "the server redirects to another host"},
		{"user info", "/", "http://me:" + password + "@HOST/base/end", "the server redirects to another host"},
		{"for ever", "/", "/base/again", "the server redirects more than 5 times"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Header.Get("Authorization") != "Bearer "+secret:
					w.WriteHeader(http.StatusUnauthorized)
				case r.URL.Path == "/base/end":
					_, _ = io.WriteString(w, "1")
				default:
					_, port, _ := net.SplitHostPort(r.Host)
					w.Header().Set("Location", strings.NewReplacer("HOST", r.Host, "PORT", port).Replace(test.to))
					w.WriteHeader(http.StatusTemporaryRedirect)
				}
			}))
			defer server.Close()
			token := func(context.Context) (string, error) { return secret, nil }
			p := provider(t, httpjson.Config{Networks: loopback(), Hosts: []httpjson.Host{
				{URL: server.URL + "/base", BearerToken: token}, {URL: other.URL}, {URL: "http://localhost"},
			}})
			method, path, found := strings.Cut(test.query, " ")
			if !found {
				method, path = "GET", test.query
			}
			got, err := measure(t.Context(), p, method+" "+server.URL+"/base"+path)
			if test.want != "" {
				refused(t, err, test.want)
			} else if err != nil || len(got) != 1 {
				t.Errorf("%v, %v", got, err)
			}
			if strayed.Load() > 0 {
				t.Error("the redirect was followed")
			}
		})
	}
}

func TestCredentialsAreOfOneHost(t *testing.T) {
	var seen http.Header
	record := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Clone()
		_, _ = io.WriteString(w, "1")
	})
	one, two, plain := httptest.NewTLSServer(record), httptest.NewServer(record), httptest.NewServer(record)
	defer one.Close()
	defer two.Close()
	defer plain.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(one.Certificate())
	p := provider(t, httpjson.Config{Networks: loopback(), Hosts: []httpjson.Host{
		{
			URL: one.URL, BearerToken: func(context.Context) (string, error) { return secret, nil },
			TLS: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12},
		},
		{URL: two.URL, Username: "slipway", Password: password, Headers: http.Header{"x-key": {"of two"}}},
		{URL: plain.URL},
	}})
	for _, test := range []struct{ url, authorization, key string }{
		{one.URL, "Bearer " + secret, ""},
		{two.URL, "Basic c2xpcHdheTpwNHNzdzByZC1vZi10aGUtaG9zdA==", "of two"},
		{plain.URL, "", ""},
	} {
		if _, err := measure(t.Context(), p, test.url); err != nil {
			t.Fatal(err)
		}
		if seen.Get("Authorization") != test.authorization || seen.Get("X-Key") != test.key {
			t.Errorf("%s was sent %v", test.url, seen)
		}
	}
}

func TestFailures(t *testing.T) {
	release := make(chan struct{})
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hang":
			<-release
		case "/half":
			_, _ = io.WriteString(w, "[1,")
			_ = http.NewResponseController(w).Flush()
			<-release
		case "/large":
			_, _ = io.WriteString(w, strings.Repeat(" ", 2<<20)+"1")
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, strings.Repeat(" ", 2<<20)+"1")
			_ = z.Close()
		case "/short":
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "1")
		default:
			http.Error(w, r.Header.Get("Authorization"), http.StatusServiceUnavailable)
		}
	})
	server := httptest.NewServer(service)
	defer server.Close()
	defer close(release)
	host := httpjson.Host{URL: server.URL, BearerToken: func(context.Context) (string, error) { return secret, nil }}
	p := provider(t, httpjson.Config{Hosts: []httpjson.Host{host}, Networks: loopback()})
	hasty := provider(t, httpjson.Config{Hosts: []httpjson.Host{host}, Networks: loopback(), Timeout: 50 * time.Millisecond})
	for query, want := range map[string]string{
		"/hang":  "there was no answer in time",
		"/half":  "there was no answer in time",
		"/large": "the answer has more than 1048576 bytes",
		"/bomb":  "the answer has more than 1048576 bytes",
		"/short": "unexpected EOF",
		"/error": "the answer has status 503 Service Unavailable",
	} {
		hangs := strings.HasPrefix(want, "there was no")
		asked := p
		if hangs {
			asked = hasty
		}
		_, err := measure(t.Context(), asked, query)
		refused(t, err, want)
		if hangs != errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", query, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := measure(ctx, p, "/hang"); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	gone := httptest.NewServer(service)
	gone.Close()
	host.URL = gone.URL
	_, err := measure(t.Context(), provider(t, httpjson.Config{Hosts: []httpjson.Host{host}, Networks: loopback()}), "/")
	refused(t, err, "dial: connection refused")
	host.BearerToken = func(context.Context) (string, error) { return "", errors.New(secret) }
	_, err = measure(t.Context(), provider(t, httpjson.Config{Hosts: []httpjson.Host{host}, Networks: loopback()}), "/")
	refused(t, err, "there is no bearer token")
}

func TestAConfigurationIsChecked(t *testing.T) {
	host := func(h httpjson.Host) []httpjson.Host { return []httpjson.Host{{URL: "https://x"}, h} }
	for _, test := range []struct {
		cfg  httpjson.Config
		want string
	}{
		{httpjson.Config{}, "Hosts: none is given"},
		{httpjson.Config{Hosts: host(httpjson.Host{})}, "Hosts[1]: URL: the URL begins with neither"},
		{httpjson.Config{Hosts: host(httpjson.Host{URL: "https://me:" + password + "@x"})}, "Hosts[1]: URL: the URL has user info"},
		{httpjson.Config{Hosts: host(httpjson.Host{URL: "https://x", Username: "a", BearerTokenFile: "b"})}, "Hosts[1]: of user name"},
		{httpjson.Config{Hosts: host(httpjson.Host{URL: "https://x"}), Networks: []netip.Prefix{{}}}, "Networks: a prefix is not valid"},
		{httpjson.Config{Hosts: host(httpjson.Host{URL: "https://x"}), Timeout: 1}, "Timeout is too small"},
		{httpjson.Config{Hosts: host(httpjson.Host{URL: "https://x"}), MaxBytes: -1}, "MaxBytes is too small"},
		{httpjson.Config{Hosts: host(httpjson.Host{URL: "https://x"}), MaxSamples: -1}, "MaxSamples is too small"},
	} {
		_, err := httpjson.New(test.cfg)
		refused(t, err, test.want)
	}
}

// TestQuestionsAtTheSameTime has each answered with its own number.
func TestQuestionsAtTheSameTime(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.FormValue("n"))
	}))
	defer server.Close()
	p := provider(t, httpjson.Config{Hosts: []httpjson.Host{{URL: server.URL + "/base"}}, Networks: loopback()})
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			got, err := measure(t.Context(), p, fmt.Sprintf("/a?n=%d", i))
			if err != nil || len(got) != 1 || got[0].Value != float64(i) {
				t.Errorf("%d: %v, %v", i, got, err)
			}
		})
	}
	all.Wait()
}
