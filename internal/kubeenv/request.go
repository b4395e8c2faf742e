package kubeenv

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// request asks the server for something as its administrator and returns the answer's body.
func (s *Server) request(ctx context.Context, method, path, body string) ([]byte, error) {
	client, err := s.client()
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	return fetch(ctx, client, method, s.URL()+path, body)
}

// fetch sends a request with a body in JSON. Any answer but a 2xx is an error.
func fetch(ctx context.Context, client *http.Client, method, url, body string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("kubeenv: %s %s: %s: %s", method, url, response.Status, answer)
	}
	return answer, err
}
