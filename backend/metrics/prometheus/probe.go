package prometheus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/metrics/internal/outbound"
)

// errLookback is the error of a server that returns samples from before a change.
var errLookback = errors.New("prometheus: the server ignores lookback_delta, so that samples from before a change are found: " +
	"Prometheus knows it from 2.43 on")

// Probe reports by its error whether the server accepts queries with these credentials and limits
// the age of a sample to the lookback of the query. A server that ignores the limit returns no
// error later, so a host that relies on the limit must call Probe at its start.
func (p *Provider) Probe(ctx context.Context) error {
	if _, err := p.Measure(ctx, backend.MetricQuery{Text: "1", Window: time.Second}); err != nil {
		return err
	}
	call, ctx, cancel, err := outbound.Begin(ctx, p.next, &p.endpoint, outbound.Limits{Timeout: p.cfg.Timeout, Bytes: p.cfg.MaxBytes})
	if err != nil {
		return fmt.Errorf("prometheus: %w", err)
	}
	defer cancel()
	client, err := p.client(call)
	if err != nil {
		return err
	}
	// A server that supports the parameter refuses a value that is not a duration.
	form := url.Values{"query": {"1"}, "lookback_delta": {"none"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, client.URL("/api/v1/query", nil).String(), strings.NewReader(form.Encode()))
	if err != nil {
		return errors.New("prometheus: the request cannot be made")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, _, err := client.Do(ctx, req)
	switch {
	case err != nil:
		return fmt.Errorf("prometheus: %w", call.Error(ctx, err))
	case resp.StatusCode == http.StatusBadRequest:
		return nil
	case resp.StatusCode == http.StatusOK:
		return errLookback
	}
	return fmt.Errorf("prometheus: the server refused: status %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
}
