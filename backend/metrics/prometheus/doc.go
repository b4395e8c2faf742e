// Package prometheus has a provider for the checks of a strategy that asks a Prometheus server, or another server with its query
// API, such as Thanos, Mimir or VictoriaMetrics.
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
// A query is PromQL that comes to a number: a scalar, or an instant vector, each of whose elements is a sample with its labels.
// It is evaluated at the moment at which the server receives it. A check wants one element, or with a clusterLabel one for each
// cluster, as "sum by (cluster) (…)" has. An empty vector is no sample. NaN, as 0/0 is, and infinities are passed on: the check
// says what they come to. Range vectors, strings and native histograms are errors that say what to ask for instead.
//
// # Samples from before the change
//
// An instant vector selector finds a sample that is at most as old as the window of the query, or [Config.MaxLookback] where the
// window is longer: the server is told so by its parameter lookback_delta. So right after a change nothing is found until the
// next scrape, and a window shorter than the scrape interval finds a sample only now and then: the initialDelay of a check
// should be at least two scrape intervals. The parameter is known to Prometheus from 2.43 on and to Thanos; a server that
// does not know it uses its own lookback, and says nothing. [Provider.Probe] finds that out.
//
// What a range selector such as x[5m] takes in is written in the query, where {{window}} stands for the window:
//
//	sum(rate(http_requests_total{cluster="{{cluster}}",code=~"5.."}[{{window}}]))
//
// A series whose scrape failed is stale at once, whatever the window. One that comes with timestamps, by federation or through
// a gateway, is not: there the window is what matters.
//
// # Limits
//
// A query takes at most [Config.Timeout], or until the deadline of the caller where that is sooner, and the server is told to
// give up then. An answer has at most [Config.MaxBytes], decompressed, and [Config.MaxSamples] samples. At most five redirects
// are followed, to the same scheme, host and port and beneath the path of the URL; others are errors.
//
// # Errors
//
// An answer without status "success", without a result, or with an element that has no value is an error: a missing value is
// not 0, which would pass every maximum.
//
// An answer with warnings of the server is an error, since it may be a part: of the stores of Thanos some did not answer, or
// samples were left out. Remarks about the query are none.
//
// An error has no credentials, no address and no body of a proxy, and is one line of at most 600 bytes. Where the server says
// where a query is wrong, so does the error. It matches [context.DeadlineExceeded] or [context.Canceled] where that was the
// reason, and wraps nothing else. Values of headers with fewer than 8 bytes are not taken for secrets.
//
// The credentials are those of the host: a strategy may ask for everything that they may read. Where strategies are of
// tenants, have a provider for each of them, with credentials that are theirs or behind a proxy that adds a matcher.
package prometheus
