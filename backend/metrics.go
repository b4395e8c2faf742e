package backend

import (
	"context"
	"time"
)

// MetricProvider returns the numbers that the checks of a strategy compare: from a Prometheus
// server, an HTTP service, or a host's own source.
//
// Measure is called concurrently, at most 16 calls at a time by one engine, with a deadline. A
// panic counts as an error. The engine may repeat a query, and after a crash another engine may
// repeat it. The error becomes part of the run, its events and its status, which every reader of
// the run sees: it must contain neither secrets nor addresses that contain secrets.
type MetricProvider interface {
	// Measure returns the results of a query, or none if there is nothing to measure. A check
	// expects one result, or one result for each cluster, distinguished by a label.
	Measure(ctx context.Context, q MetricQuery) ([]Sample, error)
}

// MetricQuery is a query for a [MetricProvider].
type MetricQuery struct {
	// Text is in the language of the provider. The author of the strategy wrote it, and may be a
	// tenant.
	Text string
	// Window is the time since the last change of the subject of the query, at least 1 s, rounded
	// down. Older samples say nothing about the subject; a provider should omit them if it can.
	Window time.Duration
}

// Sample is a result.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// MetricFunc makes a function a [MetricProvider].
type MetricFunc func(ctx context.Context, q MetricQuery) ([]Sample, error)

// Measure calls f.
func (f MetricFunc) Measure(ctx context.Context, q MetricQuery) ([]Sample, error) { return f(ctx, q) }
