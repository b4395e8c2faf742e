// Package metrics exports Prometheus metrics about the runs that engines hold, waiting runs and
// queue lag.
//
//	engine, err := fleet.New(fleet.Config{Queues: metrics.Queues(registry), ...})
//	registry.MustRegister(metrics.New(engine))
//
// [New] returns the metrics of a store, which are the same from every engine, and [Queues] the
// metrics of the queues of one engine: runs, placements and checks. docs/metrics.md lists them with
// their labels.
package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"

	"github.com/slipway-dev/slipway/fleet"
)

// readWithin limits the time for reading the store in a scrape.
const readWithin = 10 * time.Second

// Leases provides the leases of runs; [fleet.Engine] implements it.
type Leases interface {
	Leases(ctx context.Context) ([]fleet.Lease, error)
}

// collector reads the leases at each scrape.
type collector struct {
	leases                             Leases
	held, waiting, overdue, unreadable *prometheus.Desc
}

// New returns the metrics of a store. A store that cannot be read fails the scrape with its error.
// It may be scraped concurrently.
func New(from Leases) prometheus.Collector {
	return &collector{
		leases: from,
		held: prometheus.NewDesc("slipway_runs_held", // unit: runs
			"Runs that an engine drives.", []string{"engine"}, nil),
		waiting: prometheus.NewDesc("slipway_runs_waiting", // unit: runs
			"Runs that have no engine and need one.", nil, nil),
		overdue: prometheus.NewDesc("slipway_leases_overdue", // unit: runs
			"Runs whose engine has not renewed its lease for longer than Config.Skew allows.", nil, nil),
		unreadable: prometheus.NewDesc("slipway_runs_unreadable", // unit: runs
			"Runs whose records are damaged or of a newer version.", nil, nil),
	}
}

// Describe yields the descriptions.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.held, c.waiting, c.overdue, c.unreadable} {
		out <- d
	}
}

// Collect yields the metrics.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readWithin)
	defer cancel()
	leases, err := c.leases.Leases(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(c.waiting, err)
		return
	}
	held := map[string]int{}
	waiting, overdue, unreadable := 0, 0, 0
	for i := range leases {
		switch l := &leases[i]; {
		case l.Err != nil:
			unreadable++
		case l.Holder == "":
			waiting++
		default:
			held[l.Holder]++
			if l.Overdue {
				overdue++
			}
		}
	}
	for engine, n := range held {
		out <- prometheus.MustNewConstMetric(c.held, prometheus.GaugeValue, float64(n), engine)
	}
	out <- prometheus.MustNewConstMetric(c.waiting, prometheus.GaugeValue, float64(waiting))
	out <- prometheus.MustNewConstMetric(c.overdue, prometheus.GaugeValue, float64(overdue))
	out <- prometheus.MustNewConstMetric(c.unreadable, prometheus.GaugeValue, float64(unreadable))
}

// queues are the metrics of the queues of an engine.
type queues struct {
	depth, unfinished, longest *prometheus.GaugeVec
	adds, retries              *prometheus.CounterVec
	latency, work              *prometheus.HistogramVec
}

// Queues registers the metrics of the queues of one engine, for [fleet.Config]. It panics if they
// are registered already.
func Queues(registry prometheus.Registerer) workqueue.MetricsProvider {
	q := &queues{
		depth: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "slipway_queue_depth", // unit: items
			Help: "Items that are due and not begun.",
		}, []string{"queue"}),
		unfinished: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "slipway_queue_unfinished_work_seconds", // unit: seconds
			Help: "Sum of the times since the items in progress were begun.",
		}, []string{"queue"}),
		longest: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "slipway_queue_longest_seconds", // unit: seconds
			Help: "Time since the oldest item in progress was begun.",
		}, []string{"queue"}),
		adds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_queue_adds_total", // unit: items
			Help: "Items that became due.",
		}, []string{"queue"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "slipway_queue_retries_total", // unit: items
			Help: "Items that are processed again after an error.",
		}, []string{"queue"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "slipway_queue_latency_seconds", // unit: seconds
			Help:    "Time from due to begun of an item: the lag.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 11),
		}, []string{"queue"}),
		work: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "slipway_queue_work_duration_seconds", // unit: seconds
			Help:    "Time to process an item.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 11),
		}, []string{"queue"}),
	}
	registry.MustRegister(q.depth, q.unfinished, q.longest, q.adds, q.retries, q.latency, q.work)
	return q
}

// NewDepthMetric returns the metric of a queue.
func (q *queues) NewDepthMetric(name string) workqueue.GaugeMetric {
	return q.depth.WithLabelValues(name)
}

// NewAddsMetric returns the metric of a queue.
func (q *queues) NewAddsMetric(name string) workqueue.CounterMetric {
	return q.adds.WithLabelValues(name)
}

// NewLatencyMetric returns the metric of a queue.
func (q *queues) NewLatencyMetric(name string) workqueue.HistogramMetric {
	return q.latency.WithLabelValues(name)
}

// NewWorkDurationMetric returns the metric of a queue.
func (q *queues) NewWorkDurationMetric(name string) workqueue.HistogramMetric {
	return q.work.WithLabelValues(name)
}

// NewUnfinishedWorkSecondsMetric returns the metric of a queue.
func (q *queues) NewUnfinishedWorkSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return q.unfinished.WithLabelValues(name)
}

// NewLongestRunningProcessorSecondsMetric returns the metric of a queue.
func (q *queues) NewLongestRunningProcessorSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return q.longest.WithLabelValues(name)
}

// NewRetriesMetric returns the metric of a queue.
func (q *queues) NewRetriesMetric(name string) workqueue.CounterMetric {
	return q.retries.WithLabelValues(name)
}
