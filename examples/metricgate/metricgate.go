// Package metricgate holds a run after a stage until a metric has been good five times: its test is a whole host.
package metricgate
