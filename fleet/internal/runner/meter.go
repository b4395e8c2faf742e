package runner

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/commands"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/planning"
	"github.com/slipway-dev/slipway/internal/parallel"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages/check"
)

const (
	// measuresAtOnce is the maximum number of concurrent requests of an engine to metric providers,
	// over all runs.
	measuresAtOnce = 16
	// measuredTogether is the time that a measurement waits for others that were due with it, so
	// that one save takes them all.
	measuredTogether = 500 * time.Millisecond
)

// meter asks metric providers the questions of a run.
type meter struct {
	// subject holds the parts that all questions of the run share.
	subject   check.Subject
	providers map[string]backend.MetricProvider
	guard     *guard.Guard
	// room is the engine's semaphore for concurrent requests.
	room      chan struct{}
	clock     func() time.Time
	inventory func(context.Context) (map[string]placement.Cluster, error)
	// wake makes the driver read the answers.
	wake func()

	mu sync.Mutex
	// rounds holds the cancel functions of the rounds of requests in progress, by round. running
	// waits for the goroutines of these rounds.
	rounds  map[int]context.CancelFunc
	round   int
	running sync.WaitGroup
	// asked are the questions whose answers the driver has not read yet, came are the unread
	// answers.
	asked map[check.Where]bool
	came  []check.Measured
}

// newMeter returns the meter of a run.
func newMeter(e *engine, t *tenure, wake func()) *meter {
	return &meter{
		subject:   check.Subject{Run: t.name, Placement: t.placement, Snapshot: t.plan.Index},
		providers: e.Metrics, guard: e.metrics, room: e.measuring, clock: e.Clock, inventory: e.State.World.Inventory,
		wake: wake, asked: map[check.Where]bool{}, rounds: map[int]context.CancelFunc{},
	}
}

// add marks questions as asked, and returns the questions that were not marked before.
func (m *meter) add(questions []*check.Question) (fresh []*check.Question) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, q := range questions {
		if !m.asked[q.Where] {
			m.asked[q.Where] = true
			fresh = append(fresh, q)
		}
	}
	return fresh
}

// answer stores answers, and reports whether there were no unread answers before.
func (m *meter) answer(all []check.Measured) (first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first = len(m.came) == 0
	m.came = append(m.came, all...)
	return first
}

// taken returns the unread answers. Their questions may be asked again.
func (m *meter) taken() []check.Measured {
	m.mu.Lock()
	defer m.mu.Unlock()
	came := m.came
	m.came = nil
	for i := range came {
		delete(m.asked, came[i].Where)
	}
	return came
}

// request is a query to a provider, with the questions that it answers.
type request struct {
	provider, text, label string
	window                time.Duration
	// due is the run's time when the request was due; earlier measurements do not count.
	due time.Time
	of  []check.Where
}

// measure asks providers the questions that are due. Questions with the same query share one
// request.
func (m *meter) measure(ctx context.Context, due time.Time, questions []*check.Question) {
	fresh := m.add(questions)
	if len(fresh) == 0 {
		return
	}
	ctx, ended := m.begin(ctx)
	m.running.Go(func() {
		defer ended()
		requests, wrong := m.requests(ctx, due, fresh)
		m.measured(wrong)
		for answers := range parallel.Map(ctx, measuresAtOnce, requests, m.request) {
			m.measured(answers)
		}
		m.wake()
	})
}

// begin begins a round of requests, and returns its context and the function that ends the round.
func (m *meter) begin(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.round++
	round := m.round
	m.rounds[round] = cancel
	return ctx, func() {
		cancel()
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.rounds, round)
	}
}

// end cancels all requests and waits for them.
func (m *meter) end() {
	m.mu.Lock()
	for _, cancel := range m.rounds {
		cancel()
	}
	m.mu.Unlock()
	m.running.Wait()
}

// measured stores answers for the driver. It wakes the driver after a short delay, so that one turn
// reads the answers that follow soon.
func (m *meter) measured(all []check.Measured) {
	if len(all) > 0 && m.answer(all) {
		time.AfterFunc(measuredTogether, m.wake)
	}
}

// requests returns the requests that answer the questions, and error answers for questions with an
// invalid query.
func (m *meter) requests(ctx context.Context, due time.Time, questions []*check.Question) (requests []request, wrong []check.Measured) {
	type key struct {
		provider, text, label string
		window                time.Duration
	}
	index := map[key]int{}
	clusters, err := m.labels(ctx, questions)
	for _, q := range questions {
		s := m.subject
		s.Stage, s.Group, s.Cluster, s.Labels, s.Window = q.Stage, q.Group, q.Cluster, clusters[q.Cluster].Labels, q.Window
		text, problem := q.Check.Resolve(&s)
		if err != nil && q.Check.UsesLabels() {
			problem = err
		}
		if problem != nil {
			wrong = append(wrong, check.Measured{Where: q.Where, Query: q.Check.Query, Answer: check.Answer{Err: problem.Error()}, At: commands.Later(m.clock(), due)})
			continue
		}
		k := key{q.Check.Provider, text, q.Check.ClusterLabel, check.Rounded(q.Window)}
		i, ok := index[k]
		if !ok {
			i = len(requests)
			index[k] = i
			requests = append(requests, request{provider: k.provider, text: k.text, label: k.label, window: k.window, due: due})
		}
		requests[i].of = append(requests[i].of, q.Where)
	}
	return requests, wrong
}

// labels returns the inventory's clusters if a question uses their labels, and nil otherwise.
func (m *meter) labels(ctx context.Context, questions []*check.Question) (map[string]placement.Cluster, error) {
	if !slices.ContainsFunc(questions, func(q *check.Question) bool { return q.Check.UsesLabels() }) {
		return nil, nil
	}
	return m.inventory(ctx)
}

// request sends a request to its provider as soon as the engine has room for it.
func (m *meter) request(ctx context.Context, r request) []check.Measured {
	select {
	case m.room <- struct{}{}:
		defer func() { <-m.room }()
	case <-ctx.Done():
		return nil
	}
	asked := commands.Later(m.clock(), r.due)
	samples, err := m.samples(ctx, &r)
	if ctx.Err() != nil {
		return nil // the driver ends; this is no verdict on the provider
	}
	by := map[string][]float64{}
	for i := range samples {
		of := ""
		if r.label != "" {
			of = samples[i].Labels[r.label]
		}
		by[of] = append(by[of], samples[i].Value)
	}
	out := make([]check.Measured, len(r.of))
	for i, where := range r.of {
		of := ""
		if r.label != "" {
			of = where.Cluster
		}
		out[i] = check.Measured{Where: where, Query: r.text, Answer: check.Answer{Values: by[of]}, At: asked}
		if err != nil {
			out[i].Err = err.Error()
		}
	}
	return out
}

// samples asks a provider, and guards against hangs and panics of the provider.
func (m *meter) samples(ctx context.Context, r *request) ([]backend.Sample, error) {
	provider, err := planning.MetricProvider(m.providers, r.provider)
	if err != nil {
		return nil, err
	}
	return guard.Call(ctx, m.guard, "metric provider", r.provider+" "+r.text, func(ctx context.Context) ([]backend.Sample, error) {
		return provider.Measure(ctx, backend.MetricQuery{Text: r.text, Window: r.window})
	})
}
