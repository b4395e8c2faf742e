package kubehttp_test

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/internal/kubehttp"
)

// TestWatchesAreOverHTTP2 asks for objects and watches, with configurations that leave the protocol
// open and such that do not.
func TestWatchesAreOverHTTP2(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto+" "+r.Header.Get("Authorization"))
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	open := rest.Config{Host: server.URL, BearerToken: "a", TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
	second := *rest.CopyConfig(&open)
	second.NextProtos = []string{"h2"}
	const one, two = "HTTP/1.1 Bearer a", "HTTP/2.0 Bearer a"
	for name, test := range map[string]struct {
		cfg             rest.Config
		requests, watch string
	}{
		"open":     {open, one, two},
		"its own":  {second, two, two},
		"the host": {rest.Config{Transport: server.Client().Transport, BearerToken: "a"}, two, two},
	} {
		client, err := kubehttp.ClientFor(&test.cfg)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for path, want := range map[string]string{
			"/api/v1/pods": test.requests, "/api/v1/pods/watch": test.requests, "/api/v1/pods?labelSelector=watch": test.requests,
			"/api/v1/pods?watch=true": test.watch, "/api/v1/pods?allowWatchBookmarks=true&watch=1": test.watch, "/api/v1/pods?watch=false": test.requests,
		} {
			if got := ask(t, client, server.URL+path); got != want {
				t.Errorf("%s: %s is asked over %s, want %s", name, path, got, want)
			}
		}
		client.CloseIdleConnections()
	}
}

// TestWrappersSeeEveryRequest counts through a configuration's wrapper.
func TestWrappersSeeEveryRequest(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	seen := 0
	cfg := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			seen++
			return rt.RoundTrip(r)
		})
	})
	client, err := kubehttp.ClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ask(t, client, server.URL+"/a")
	ask(t, client, server.URL+"/a?watch=true")
	if seen != 2 {
		t.Errorf("the wrapper saw %d of 2 requests", seen)
	}
}

// TestAConfigurationThatCannotBeUsed is an error.
func TestAConfigurationThatCannotBeUsed(t *testing.T) {
	if _, err := kubehttp.ClientFor(&rest.Config{Host: "https://a", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("no certificate")}}); err == nil {
		t.Error("a CA that is none was taken")
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func ask(t *testing.T, client *http.Client, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
