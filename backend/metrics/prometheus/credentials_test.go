package prometheus_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/metrics/prometheus"
)

const (
	secret   = "s3cr3t-t0ken-of-the-host"
	password = "p4ssw0rd-of-the-host"
)

// token returns a source of a bearer token.
func token(text string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return text, nil }
}

// gate is a proxy before a server that wants credentials.
func gate(t *testing.T, server string, open func(*http.Request) bool) http.Handler {
	t.Helper()
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.URL.Path = strings.TrimPrefix(r.Out.URL.Path, "/prometheus")
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !open(r) {
			// A careless gateway that repeats the credentials in its answer.
			http.Error(w, "not you: "+r.Header.Get("Authorization"), http.StatusUnauthorized)
			return
		}
		proxy.ServeHTTP(w, r)
	})
}

func testCredentials(t *testing.T, server string) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bearer := func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer "+secret }
	basic := func(r *http.Request) bool {
		name, given, ok := r.BasicAuth()
		return ok && name == "slipway" && given == password
	}
	failing := func(context.Context) (string, error) { return "", errors.New(secret) }
	tenant := func(r *http.Request) bool { return r.Header.Get("X-Scope-OrgID") == "team-1" }
	for name, test := range map[string]struct {
		open func(*http.Request) bool
		cfg  prometheus.Config
		want string
	}{
		"basic": {basic, prometheus.Config{Username: "slipway", Password: password}, ""},
		"token": {bearer, prometheus.Config{BearerToken: token(secret)}, ""},
		"file":  {bearer, prometheus.Config{BearerTokenFile: file}, ""},
		"header": {
			func(r *http.Request) bool { return bearer(r) && tenant(r) },
			prometheus.Config{Headers: http.Header{"authorization": {"Bearer " + secret}, "x-scope-orgid": {"team-1"}}},
			"",
		},
		"no credentials": {bearer, prometheus.Config{}, "the server refused: client error: 401"},
		"wrong password": {basic, prometheus.Config{Username: "slipway", Password: secret}, "the server refused: client error: 401"},
		"wrong token":    {basic, prometheus.Config{BearerTokenFile: file}, "the server refused: client error: 401"},
		"no file":        {bearer, prometheus.Config{BearerTokenFile: file + "-not"}, "there is no bearer token"},
		"failing source": {bearer, prometheus.Config{BearerToken: failing}, "there is no bearer token"},
		"token of two":   {bearer, prometheus.Config{BearerToken: token(secret + "\r\nX: y")}, "the bearer token is empty"},
		"untrusted":      {bearer, prometheus.Config{BearerTokenFile: file, TLS: &tls.Config{}}, "tls: failed to verify certificate"},
		"wrong path":     {bearer, prometheus.Config{BearerTokenFile: file, URL: "/elsewhere"}, "the server refused: client error: 404"},
		"secret in query": {
			bearer,
			prometheus.Config{BearerTokenFile: file, Headers: http.Header{"X-Key": {"unclosed"}}},
			"the query is wrong: 1:6: parse error: [secret] left parenthesis",
		},
	} {
		t.Run(name, func(t *testing.T) {
			front := httptest.NewTLSServer(gate(t, server, test.open))
			defer front.Close()
			cfg := test.cfg
			path := "/prometheus/"
			if cfg.URL != "" {
				path = cfg.URL
			}
			cfg.URL = front.URL + path
			if cfg.TLS == nil {
				trusted := x509.NewCertPool()
				trusted.AddCert(front.Certificate())
				cfg.TLS = &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}
			}
			query := "6 * 7"
			if strings.HasPrefix(test.want, "the query is wrong") {
				query = "sum((" // the error of the server has a word that is the value of a header
			}
			got, err := measure(t.Context(), provider(t, cfg), query)
			if test.want == "" {
				if err != nil || len(got) != 1 || got[0].Value != 42 {
					t.Errorf("%v, %v", got, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("%v, %v", got, err)
			}
			for _, hidden := range []string{secret, password, "unclosed", "127.0.0.1", front.URL} {
				if strings.Contains(err.Error(), hidden) {
					t.Errorf("the error has %q: %v", hidden, err)
				}
			}
		})
	}
}

func testLimits(t *testing.T, server string) {
	small := provider(t, prometheus.Config{URL: server, MaxBytes: 1 << 10})
	few := provider(t, prometheus.Config{URL: server, MaxSamples: 10})
	until(t, few, backend.MetricQuery{Text: "ratio", Window: time.Minute}, some)
	for want, p := range map[string]*prometheus.Provider{
		"the answer has more than 1024 bytes":          small,
		"the query has 600 results, more than 10: agg": few,
	} {
		got, err := measure(t.Context(), p, "load")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v; want %s", got, err, want)
		}
	}
}
