// Package metrics has the metrics of a hub.
package metrics

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slipway-dev/slipway/stages"
)

// Meters are the hub's metrics. The number of series does not grow with the runs and the
// clusters, whose details are in their statuses and events.
type Meters struct {
	events    *prometheus.CounterVec
	syncs     *prometheus.CounterVec
	seconds   *prometheus.HistogramVec
	updates   prometheus.Histogram
	approvals prometheus.Histogram
	Leading   prometheus.Gauge
}

// New registers the metrics at r, unless r is nil.
func New(r prometheus.Registerer) (*Meters, error) {
	m := &Meters{
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_hub_events_total", // unit: events
			Help: "Events of runs, by their type (stages.EventType).",
		}, []string{"type"}),
		syncs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_hub_syncs_total", // unit: reconciliations
			Help: "Reconciliations of objects, by the kind of the object and the result: ok or error.",
		}, []string{"kind", "result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "slipway_hub_sync_seconds", // unit: seconds
			Help:    "Duration of a reconciliation, by the kind of the object.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}, []string{"kind"}),
		updates: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "slipway_hub_cluster_update_seconds", // unit: seconds
			Help:    "Time from the start of a cluster in a run until the cluster was proven to have the revision.",
			Buckets: prometheus.ExponentialBuckets(0.1, 4, 8),
		}),
		approvals: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "slipway_hub_approval_seconds", // unit: seconds
			Help:    "Time from the request of an approval until the approval was accepted.",
			Buckets: prometheus.ExponentialBuckets(60, 4, 8),
		}),
		Leading: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "slipway_hub_leading", // unit: 0 or 1
			Help: "1 while this hub is the leader, otherwise 0.",
		}),
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.events, m.syncs, m.seconds, m.updates, m.approvals, m.Leading} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("hub: Config.Registry: %w", err)
		}
	}
	return m, nil
}

// Happened counts an event. If the event ends an update or a request, since is its start, zero if
// unknown.
func (m *Meters) Happened(e stages.Event, since time.Time) {
	m.events.WithLabelValues(string(e.Type)).Inc()
	if since.IsZero() {
		return
	}
	switch took := e.Time.Sub(since).Seconds(); e.Type {
	case stages.ClusterCompleted:
		m.updates.Observe(took)
	case stages.ApprovalAccepted:
		m.approvals.Observe(took)
	default:
	}
}

// Synced counts one round of a loop.
func (m *Meters) Synced(kind string, took time.Duration, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.syncs.WithLabelValues(kind, result).Inc()
	m.seconds.WithLabelValues(kind).Observe(took.Seconds())
}
