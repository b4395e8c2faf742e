// Package metrics exports Prometheus metrics about the runs that engines hold, waiting runs and
// queue lag.
//
//	engine, err := fleet.New(fleet.Config{Queues: metrics.Queues(registry), ...})
//	registry.MustRegister(metrics.New(engine))
//
// Metrics of the store, the same from every engine:
//
//	slipway_runs_held{engine}             runs that an engine drives
//	slipway_runs_waiting                  runs that have no engine and must get one
//	slipway_leases_overdue                runs whose engine has not renewed its lease for longer than Config.Skew allows
//	slipway_runs_unreadable               runs whose records are damaged, or of a newer version
//
// Metrics of an engine, by queue (runs, placements, checks):
//
//	slipway_queue_depth{queue}                     items that are due and not begun
//	slipway_queue_adds_total{queue}                items that became due
//	slipway_queue_latency_seconds{queue}           time from due to begun: the lag
//	slipway_queue_work_duration_seconds{queue}     time to process an item
//	slipway_queue_longest_seconds{queue}           time so far of the longest running item
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
		leases:     from,
		held:       prometheus.NewDesc("slipway_runs_held", "Runs that an engine drives.", []string{"engine"}, nil),
		waiting:    prometheus.NewDesc("slipway_runs_waiting", "Runs that no engine drives, and that one has to.", nil, nil),
		overdue:    prometheus.NewDesc("slipway_leases_overdue", "Runs whose engine has not renewed its lease in time.", nil, nil),
		unreadable: prometheus.NewDesc("slipway_runs_unreadable", "Runs whose records are damaged or of a newer version.", nil, nil),
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
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "slipway_queue_" + name, Help: help}, []string{"queue"})
	}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "slipway_queue_" + name, Help: help}, []string{"queue"})
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "slipway_queue_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(0.0001, 4, 11),
		}, []string{"queue"})
	}
	q := &queues{
		depth:      gauge("depth", "What is due and not begun."),
		unfinished: gauge("unfinished_work_seconds", "How long what goes on has taken, together."),
		longest:    gauge("longest_seconds", "How long the longest has taken that goes on."),
		adds:       counter("adds_total", "What became due."),
		retries:    counter("retries_total", "What is done again after an error."),
		latency:    histogram("latency_seconds", "How long it took until what was due was begun."),
		work:       histogram("work_duration_seconds", "How long it took."),
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
