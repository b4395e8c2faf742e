package prometheus_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/metrics/prometheus"
	"github.com/slipway-dev/slipway/internal/promenv"
)

// patience is how long a test waits for scrapes on a busy machine.
const patience = 60 * time.Second

// clusters is how many clusters the exporter has numbers of.
const clusters = 200

// exporter serves the metrics of a registry that can be replaced, as by a restart, and can be
// stopped.
type exporter struct {
	*httptest.Server
	registry atomic.Pointer[client.Registry]
}

func newExporter(t *testing.T) *exporter {
	e := &exporter{}
	e.registry.Store(client.NewRegistry())
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		promhttp.HandlerFor(e.registry.Load(), promhttp.HandlerOpts{}).ServeHTTP(w, r)
	}))
	t.Cleanup(e.Close)
	return e
}

// measure asks for a query, with the longest lookback.
func measure(ctx context.Context, p *prometheus.Provider, query string) ([]backend.Sample, error) {
	return p.Measure(ctx, backend.MetricQuery{Text: query, Window: time.Hour})
}

// until asks for a query until its answer is accepted.
func until(t *testing.T, p *prometheus.Provider, q backend.MetricQuery, accepted func([]backend.Sample) bool) []backend.Sample {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		got, err := p.Measure(ctx, q)
		if err == nil && accepted(got) {
			return got
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: the last answer is %v, %v", q.Text, got, err)
		}
	}
}

func some(got []backend.Sample) bool { return len(got) > 0 }

func none(got []backend.Sample) bool { return len(got) == 0 }

func atLeast(value float64) func([]backend.Sample) bool {
	return func(got []backend.Sample) bool { return len(got) == 1 && got[0].Value >= value }
}

func provider(t *testing.T, cfg prometheus.Config) *prometheus.Provider {
	t.Helper()
	p, err := prometheus.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestAServer asks a real server that scrapes real exporters; the parts share one, since a start
// takes seconds.
func TestAServer(t *testing.T) {
	fixed, restarted, stopped, vanished := newExporter(t), newExporter(t), newExporter(t), newExporter(t)
	fixedMetrics(fixed.registry.Load())
	server := promenv.ForTest(t, fixed.URL, restarted.URL, stopped.URL, vanished.URL)
	p := provider(t, prometheus.Config{URL: server.URL})
	t.Run("group", func(t *testing.T) {
		t.Run("answers", func(t *testing.T) { t.Parallel(); testAnswers(t, p) })
		t.Run("refusals", func(t *testing.T) { t.Parallel(); testRefusals(t, p) })
		t.Run("a counter that is reset", func(t *testing.T) { t.Parallel(); testReset(t, p, restarted) })
		t.Run("a sample older than the window", func(t *testing.T) { t.Parallel(); testOld(t, p, stopped) })
		t.Run("an exporter that is gone", func(t *testing.T) { t.Parallel(); testGone(t, p, vanished) })
		t.Run("credentials", func(t *testing.T) { t.Parallel(); testCredentials(t, server.URL) })
		t.Run("limits", func(t *testing.T) { t.Parallel(); testLimits(t, server.URL) })
	})
}

func fixedMetrics(r *client.Registry) {
	up := client.NewGauge(client.GaugeOpts{Name: "ratio", ConstLabels: client.Labels{"service": "shop"}})
	up.Set(0.25)
	zero := client.NewGauge(client.GaugeOpts{Name: "zero"})
	load := client.NewGaugeVec(client.GaugeOpts{Name: "load"}, []string{"cluster", "pod"})
	for c := range clusters {
		for pod := range 3 {
			load.WithLabelValues(fmt.Sprintf("member-%d", c), fmt.Sprint(pod)).Set(float64(c))
		}
	}
	r.MustRegister(up, zero, load)
}

func testAnswers(t *testing.T, p *prometheus.Provider) {
	if err := p.Probe(t.Context()); err != nil {
		t.Error(err)
	}
	until(t, p, backend.MetricQuery{Text: "ratio", Window: time.Minute}, some)
	for _, test := range []struct {
		query string
		want  []backend.Sample
	}{
		{`sum(ratio)`, []backend.Sample{{Labels: map[string]string{}, Value: 0.25}}},
		{`sum by (service) (ratio)`, []backend.Sample{{Labels: map[string]string{"service": "shop"}, Value: 0.25}}},
		{`42`, []backend.Sample{{Value: 42}}},
		{`scalar(ratio) * 4`, []backend.Sample{{Value: 1}}},
		{`absent(ratio)`, []backend.Sample{}},
		{`ratio{service="other"}`, []backend.Sample{}},
		{`ratio > 1`, []backend.Sample{}},
		{`sum(zero) / sum(zero)`, []backend.Sample{{Labels: map[string]string{}, Value: math.NaN()}}},
		{`sum(ratio) / sum(zero)`, []backend.Sample{{Labels: map[string]string{}, Value: math.Inf(1)}}},
		{`-1 / 0`, []backend.Sample{{Value: math.Inf(-1)}}},
		{`sum by (pod) (load{cluster="member-7"})`, []backend.Sample{
			{Labels: map[string]string{"pod": "0"}, Value: 7},
			{Labels: map[string]string{"pod": "1"}, Value: 7},
			{Labels: map[string]string{"pod": "2"}, Value: 7},
		}},
	} {
		got, err := measure(t.Context(), p, test.query)
		slices.SortFunc(got, func(a, b backend.Sample) int { return strings.Compare(a.Labels["pod"], b.Labels["pod"]) })
		if diff := cmp.Diff(test.want, got, cmpopts.EquateNaNs()); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got)\n%s", test.query, err, diff)
		}
	}
	whole := until(t, p, backend.MetricQuery{Text: `ratio`, Window: time.Minute}, some)
	if l := whole[0].Labels; l["__name__"] != "ratio" || l["service"] != "shop" || l["job"] != "exporter-0" {
		t.Errorf("the labels are %v", l)
	}
	got, err := measure(t.Context(), p, `sum by (cluster) (load)`)
	if err != nil || len(got) != clusters {
		t.Fatalf("%d clusters, %v", len(got), err)
	}
	for _, s := range got {
		if want := fmt.Sprintf("member-%d", int(s.Value/3)); s.Labels["cluster"] != want {
			t.Errorf("%v of %v", s.Value, s.Labels)
		}
	}
}

func testRefusals(t *testing.T, p *prometheus.Provider) {
	for _, test := range []struct{ query, want string }{
		{`sum(rate(x[5m])`, "the query is wrong: 1:16: parse error: unclosed left parenthesis"},
		{"sum by (cluster)\n(x) ++", "the query is wrong: 2:7: parse error: unexpected end of input"},
		{``, "the query is wrong: "},
		{`ratio[1m]`, "the result is a range vector: take a number of each range"},
		{`"text"`, "the result is a string"},
		{`load * on (cluster) load`, "the query failed: "},
	} {
		until(t, p, backend.MetricQuery{Text: "ratio", Window: time.Minute}, some)
		got, err := measure(t.Context(), p, test.query)
		if err == nil || !strings.HasPrefix(err.Error(), "prometheus: "+test.want) || got != nil {
			t.Errorf("%q: %v, %v", test.query, got, err)
		}
	}
}

// testReset restarts an exporter, whose counter begins at 0 again.
func testReset(t *testing.T, p *prometheus.Provider, e *exporter) {
	begin := func(value float64) {
		fresh := client.NewRegistry()
		counter := client.NewCounter(client.CounterOpts{Name: "requests_total"})
		counter.Add(value)
		fresh.MustRegister(counter)
		e.registry.Store(fresh)
	}
	begin(1000)
	until(t, p, backend.MetricQuery{Text: `sum(count_over_time(requests_total[5m]))`, Window: time.Minute}, atLeast(2))
	begin(40)
	until(t, p, backend.MetricQuery{Text: `sum(count_over_time((requests_total < 100)[5m:1s]))`, Window: time.Minute}, atLeast(2))
	got, err := measure(t.Context(), p, `sum(resets(requests_total[5m]))`)
	if err != nil || len(got) != 1 || got[0].Value != 1 {
		t.Fatalf("resets: %v, %v", got, err)
	}
	// After the reset 40 were counted; increase extrapolates to the borders of the range, at most by
	// half of an interval each.
	got, err = measure(t.Context(), p, `sum(increase(requests_total[5m]))`)
	if err != nil || len(got) != 1 || got[0].Value < 40 || got[0].Value > 120 {
		t.Errorf("increase: %v, %v", got, err)
	}
	got, err = measure(t.Context(), p, `sum(rate(requests_total[5m]))`)
	if err != nil || len(got) != 1 || got[0].Value <= 0 {
		t.Errorf("rate: %v, %v", got, err)
	}
}

// stamped is a gauge with the time of its measurement, like a metric from a gateway or from
// federation. A failed scrape does not mark it as stale.
type stamped struct {
	desc *client.Desc
	at   time.Time
}

func (s *stamped) Describe(c chan<- *client.Desc) { c <- s.desc }

func (s *stamped) Collect(c chan<- client.Metric) {
	c <- client.NewMetricWithTimestamp(s.at, client.MustNewConstMetric(s.desc, client.GaugeValue, 7))
}

func testOld(t *testing.T, p *prometheus.Provider, e *exporter) {
	at := time.Now()
	e.registry.Load().MustRegister(&stamped{desc: client.NewDesc("measured", "", nil, nil), at: at})
	until(t, p, backend.MetricQuery{Text: "measured", Window: time.Hour}, some)
	e.Close()
	const window = 3 * time.Second
	until(t, p, backend.MetricQuery{Text: "measured", Window: window + 900*time.Millisecond}, none)
	if age := time.Since(at); age < window {
		t.Errorf("it is not found when it is %s old, with a window of %s", age, window)
	}
	for _, long := range []time.Duration{2 * time.Minute, time.Hour} {
		got, err := p.Measure(t.Context(), backend.MetricQuery{Text: "measured", Window: long})
		if err != nil || len(got) != 1 || got[0].Value != 7 {
			t.Errorf("window %s: %v, %v", long, got, err)
		}
	}
}

// testGone: a scrape that failed marks its series as stale, so that no window finds them; a range
// still does.
func testGone(t *testing.T, p *prometheus.Provider, e *exporter) {
	g := client.NewGauge(client.GaugeOpts{Name: "gone"})
	g.Set(3)
	e.registry.Load().MustRegister(g)
	until(t, p, backend.MetricQuery{Text: "gone", Window: time.Hour}, some)
	e.Close()
	until(t, p, backend.MetricQuery{Text: "gone", Window: time.Hour}, none)
	got, err := measure(t.Context(), p, "last_over_time(gone[5m])")
	if err != nil || len(got) != 1 || got[0].Value != 3 {
		t.Errorf("%v, %v", got, err)
	}
}
