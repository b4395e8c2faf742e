package kubeenv

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// clusters are the shared servers of the tests. A test stops, kills and pauses only its own
// servers.
var clusters Shared

func TestMain(m *testing.M) {
	if os.Getenv(parentMark) != "" {
		os.Exit(parent())
	}
	os.Exit(clusters.Run(m))
}

// ask sends a request with the credentials of a configuration and returns status and body.
func ask(t *testing.T, c *rest.Config, method, path, body string) (int, string) {
	t.Helper()
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	code, answer, err := askWith(t.Context(), client, method, c.Host+path, body)
	if err != nil {
		t.Fatal(err)
	}
	return code, answer
}

func askWith(ctx context.Context, client *http.Client, method, url, body string) (int, string, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return response.StatusCode, string(answer), err
}

// must fails the test unless an administrator's request succeeds.
func must(t *testing.T, s *Server, method, path, body string) string {
	t.Helper()
	code, answer := ask(t, s.Config(), method, path, body)
	if code >= http.StatusMultipleChoices {
		t.Fatalf("%s %s on %s: %d %s", method, path, s, code, answer)
	}
	return answer
}

// eventually waits for a condition that servers reach by themselves.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !happened() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("it did not happen in two minutes that %s", what)
		}
	}
}
