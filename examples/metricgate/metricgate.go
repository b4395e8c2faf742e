// Package metricgate delays a run after a stage until a metric has been good five times: its test
// is a complete host.
package metricgate
