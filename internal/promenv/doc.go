// Package promenv runs a real Prometheus server for tests, on a loopback address, which scrapes given exporters every second.
//
//	exporter := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
//	server := promenv.ForTest(t, exporter.URL)
//	... server.URL ...
//
// The program is built by make kube. Where it is missing, the test fails and says so; it is never skipped.
package promenv
