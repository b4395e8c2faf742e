// Package promenv runs a real Prometheus server for tests, on a loopback address, which scrapes
// given exporters every second.
//
//	exporter := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
//	server := promenv.ForTest(t, exporter.URL)
//	... server.URL ...
//
// The target make kube builds the program. If it is missing, the test fails with a message; it is
// never skipped.
package promenv
