package backend

import (
	"context"
	"time"
)

// MetricProvider answers questions that have numbers as their answer, for the checks of a strategy:
// a Prometheus server, an HTTP service, a query of a host's own.
//
// Measure is called concurrently, at most 16 calls at a time by one engine, with a deadline. A
// panic counts as an error. It may be asked the same again, after a crash and by another engine.
// Its error becomes part of the run, of its events and of its status, where everybody who may see
// the run reads it: it has neither secrets nor addresses with them.
type MetricProvider interface {
	// Measure returns the results of a query: none where there is nothing to be measured. A check
	// wants one result, or one for each cluster, by a label.
	Measure(ctx context.Context, q MetricQuery) ([]Sample, error)
}

// MetricQuery is a question to a [MetricProvider].
type MetricQuery struct {
	// Text is in the language of the provider. Its author is that of a strategy, who may be a
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
