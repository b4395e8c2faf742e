// Package prometheus is a provider for the checks of a strategy. It queries a Prometheus server,
// or another server with the same query API, such as Thanos, Mimir or VictoriaMetrics.
//
//	provider, err := prometheus.New(prometheus.Config{
//		URL:             "https://prometheus.monitoring.svc:9090",
//		BearerTokenFile: "/var/run/secrets/tokens/prometheus",
//	})
//	...
//	fleet.Config{Metrics: map[string]backend.MetricProvider{"prometheus": provider}}
//
// # Queries
//
// A query is a PromQL expression with a scalar or an instant vector as its result. Each element
// of a vector is a sample with its labels. The server evaluates the query on arrival. A check
// expects one element, or with a clusterLabel one element for each cluster, as "sum by (cluster)
// (…)" returns. An empty vector is no sample. The provider passes NaN, for example from 0/0, and
// infinities on to the check. For range vectors, strings and native histograms the error names
// the expected result type.
//
// # Samples from before the change
//
// An instant vector selector finds a sample that is at most as old as the window of the query, or
// as [Config.MaxLookback] if the window is longer. The provider sends this limit as the parameter
// lookback_delta. Therefore a query right after a change finds nothing until the next scrape, and
// with a window shorter than the scrape interval it finds a sample only sometimes. The
// initialDelay of a check should be at least two scrape intervals. Prometheus supports the
// parameter from 2.43 on, and Thanos supports it; another server silently uses its own lookback.
// [Provider.Probe] detects this.
//
// The window of a range selector such as x[5m] is part of the query; {{window}} stands for the
// window of the check:
//
//	sum(rate(http_requests_total{cluster="{{cluster}}",code=~"5.."}[{{window}}]))
//
// A series becomes stale immediately after a failed scrape, whatever the window. A series with
// explicit timestamps, from federation or a gateway, does not; for such a series the window
// counts.
//
// # Limits
//
// A query takes at most [Config.Timeout], or until the deadline of the caller if that is sooner,
// and the server receives this timeout too. An answer has at most [Config.MaxBytes],
// decompressed, and [Config.MaxSamples] samples. The provider follows at most five redirects, to
// the same scheme, host and port and below the path of the URL; others are errors.
//
// # Errors
//
// An answer without status "success", without a result, or with an element without a value is an
// error: a missing value is not 0, because 0 would pass every maximum.
//
// An answer with warnings of the server is an error because it may be incomplete: some stores of
// Thanos may not have answered, or samples were left out. Remarks about the query are no error.
//
// An error contains no credentials, no address and no body of a proxy, and is one line of at most
// 600 bytes. It contains the position of a mistake in the query if the server reports one. It
// matches [context.DeadlineExceeded] or [context.Canceled] if that was the reason, and wraps no
// other error. Values of headers with fewer than 8 bytes do not count as secrets.
//
// A query runs with the credentials of the host, so a strategy may query everything that these
// credentials may read. If tenants write strategies, the host should create a provider for each
// tenant, with the tenant's own credentials or behind a proxy that adds a matcher.
package prometheus
