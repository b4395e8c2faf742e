package kubehttp_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/internal/kubehttp"
)

const (
	lacksRight = `{"message":"pods is forbidden: User \"eve\" cannot list resource \"pods\""}`
	denied     = `{"message":"admission webhook \"w\" denied the request"}`
)

// A missing right counts if the API server is ready; other answers pass.
func TestARefusalOfAServerThatIsNotReady(t *testing.T) {
	once := func(r *http.Request) *http.Request {
		r.GetBody = nil
		return r
	}
	same := func(r *http.Request) *http.Request { return r }
	for name, tc := range map[string]struct {
		answers map[string][]int // by path, the last one again and again
		refusal string
		request func(*http.Request) *http.Request
		want    int
		asked   []string
	}{
		"no refusal":             {map[string][]int{"/p/x": {200}}, "", same, 200, []string{"POST /p/x body"}},
		"ready":                  {map[string][]int{"/p/x": {403}, "/p/readyz": {200}}, lacksRight, same, 403, []string{"POST /p/x body", "GET /p/readyz", "POST /p/x body"}},
		"became ready":           {map[string][]int{"/p/x": {403, 201}, "/p/readyz": {200}}, lacksRight, same, 201, []string{"POST /p/x body", "GET /p/readyz", "POST /p/x body"}},
		"not ready":              {map[string][]int{"/p/x": {403}, "/p/readyz": {500}}, lacksRight, same, 503, []string{"POST /p/x body", "GET /p/readyz"}},
		"no roles":               {map[string][]int{"/p/x": {403}, "/p/readyz": {403}, "/p/api": {403}}, lacksRight, same, 503, []string{"POST /p/x body", "GET /p/readyz", "GET /p/api"}},
		"readiness is a secret":  {map[string][]int{"/p/x": {403}, "/p/readyz": {403}, "/p/api": {200}}, lacksRight, same, 403, []string{"POST /p/x body", "GET /p/readyz", "GET /p/api", "POST /p/x body"}},
		"a proxy does not know":  {map[string][]int{"/p/x": {403}, "/p/readyz": {404}}, lacksRight, same, 403, []string{"POST /p/x body", "GET /p/readyz", "POST /p/x body"}},
		"a webhook":              {map[string][]int{"/p/x": {403}}, denied, same, 403, []string{"POST /p/x body"}},
		"a body for one reading": {map[string][]int{"/p/x": {403}}, lacksRight, once, 403, []string{"POST /p/x body"}},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				asked = append(asked, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Method, r.URL.Path, body)))
				codes := tc.answers[r.URL.Path]
				if len(codes) > 1 {
					tc.answers[r.URL.Path] = codes[1:]
				}
				w.WriteHeader(codes[0])
				if codes[0] == http.StatusForbidden {
					_, _ = io.WriteString(w, tc.refusal)
				}
			}))
			defer server.Close()
			base, err := url.Parse(server.URL + "/p")
			if err != nil {
				t.Fatal(err)
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/p/x", strings.NewReader("body"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := kubehttp.IfReady(http.DefaultTransport, base).RoundTrip(tc.request(r))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if resp.StatusCode != tc.want || err != nil || resp.Body.Close() != nil {
				t.Errorf("the answer is %d %s, %v, want %d", resp.StatusCode, body, err, tc.want)
			}
			if tc.want == http.StatusForbidden && string(body) != tc.refusal {
				t.Errorf("the refusal says %s, want %s", body, tc.refusal)
			}
			if tc.want == http.StatusServiceUnavailable && !strings.Contains(string(body), "the API server is not ready") {
				t.Errorf("503 says %s", body)
			}
			if diff := cmp.Diff(tc.asked, asked); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// A server that does not say whether it is ready is an error, which callers take for a lost
// connection.
func TestAServerThatDoesNotSayWhetherItIsReady(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/readyz" {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, lacksRight)
	}))
	defer server.Close()
	base, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: kubehttp.IfReady(http.DefaultTransport, base)}
	defer client.CloseIdleConnections()
	resp, err := client.Get(server.URL + "/x")
	if err == nil {
		t.Errorf("the answer is %d, want an error", resp.StatusCode)
	}
}
