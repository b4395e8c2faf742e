package postgres_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// rollout is what engine processes roll out together: so many placements over so many clusters, whose calls take so long.
type rollout struct {
	clusters, placements int
	delay                time.Duration
}

// benchUpdates is how many clusters an engine updates at the same time.
const benchUpdates = 32

// String is how a process of an engine is told what clusters it has.
func (r rollout) String() string {
	return fmt.Sprintf("bench %d %d %s", r.clusters, r.placements, r.delay)
}

// rolloutOf is what String says, if it does.
func rolloutOf(members string) (r rollout, is bool) {
	var delay string
	if n, _ := fmt.Sscanf(members, "bench %d %d %s", &r.clusters, &r.placements, &delay); n != 3 {
		return r, false
	}
	r.delay, _ = time.ParseDuration(delay)
	return r, true
}

// fleet has the clusters, which each engine process has for itself: one that takes a run over finds clusters without anything.
func (r rollout) fleet() *memory.Fleet {
	f := memory.NewFleet()
	for i := range r.clusters {
		name := fmt.Sprintf("c%06d", i)
		f.Add(placement.Cluster{Name: name, Labels: map[string]string{"part": strconv.Itoa(i % r.placements)}})
		f.SetDelay(name, func() time.Duration { return r.delay })
	}
	return f
}

// crew has so many engines, none of which has anything to do yet.
func (r rollout) crew(b *testing.B, engines int) *crew {
	b.Helper()
	c := newCrew(b, 0)
	c.members = r.String()
	for i := range engines {
		c.start(fmt.Sprint("engine-", i))
	}
	clusters := r.fleet()
	host, err := fleet.New(fleet.Config{Store: c.store, Inventory: clusters, Dialer: clusters, Source: c.source, Name: "host", Lease: enginesLease, Skew: enginesSkew})
	if err != nil {
		b.Fatal(err)
	}
	c.host = host
	time.Sleep(2 * time.Second)
	for i := range r.placements {
		c.place(i, metav1.LabelSelector{MatchLabels: map[string]string{"part": strconv.Itoa(i)}}, fleet.ApplyStrategy{})
	}
	return c
}

// begin creates the runs.
func (r rollout) begin(c *crew) {
	c.t.Helper()
	for i := range r.placements {
		spec := fleet.RunSpec{Name: fmt.Sprint("b", i), Placement: fmt.Sprint("b", i), Strategy: stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}, MaxConcurrency: allOfThem()}}}}
		if _, err := c.host.CreateRun(c.t.Context(), spec); err != nil {
			c.t.Fatal(err)
		}
	}
}

// finish waits for the runs.
func (r rollout) finish(c *crew) {
	c.t.Helper()
	for i := range r.placements {
		if s, err := c.host.Wait(c.t.Context(), fmt.Sprint("b", i)); err != nil || s.Run.State != stages.Completed {
			c.t.Fatalf("%s, %v", s.Run.State, err)
		}
	}
}

// BenchmarkEngines has engines in processes of their own on one store bring a ConfigMap to 10,000 clusters whose calls take 20 ms.
// updates/s is what they do together, db-cores and engine-cores what the server and they take of the processors.
func BenchmarkEngines(b *testing.B) {
	r := rollout{clusters: 10_000, placements: 40, delay: 20 * time.Millisecond}
	for _, engines := range []int{1, 2, 4, 8} {
		b.Run(fmt.Sprint("engines=", engines), func(b *testing.B) {
			var took time.Duration
			var db, own float64
			for range b.N {
				c := r.crew(b, engines)
				began, dbBefore := time.Now(), serverCPU()
				r.begin(c)
				r.finish(c)
				took += time.Since(began)
				db += serverCPU() - dbBefore
				for _, name := range c.names() {
					own += c.killed(name)
				}
			}
			b.ReportMetric(float64(b.N*r.clusters)/took.Seconds(), "updates/s")
			b.ReportMetric(db/took.Seconds(), "db-cores")
			b.ReportMetric(own/took.Seconds(), "engine-cores")
		})
	}
}

// BenchmarkLargeFleet has four engines roll out to 100,000 clusters while another process follows every event. One of them is
// killed when a third is done: s-beyond-lease is how much longer than a lease it takes until others have its runs. The bytes are
// those of the server's log, and of its table and indexes at the end.
func BenchmarkLargeFleet(b *testing.B) {
	r := rollout{clusters: 100_000, placements: 40, delay: 20 * time.Millisecond}
	for range b.N {
		c := r.crew(b, 4)
		number := func(query string) (n float64) {
			if err := session(b, shared.DSN()).QueryRow(b.Context(), strings.ReplaceAll(query, "{schema}", c.schema)).Scan(&n); err != nil {
				b.Fatal(err)
			}
			return n
		}
		const log = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8"
		logBefore, began := number(log), time.Now()
		r.begin(c)
		planned := time.Since(began)
		var completed atomic.Int64
		follower, err := c.host.Follow("", "")
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(b.Context())
		followed := make(chan struct{})
		go func() {
			defer close(followed)
			for e, err := range follower.Events(ctx) {
				if err == nil && e.Type == stages.ClusterCompleted {
					completed.Add(1)
				}
			}
		}()
		for completed.Load() < int64(r.clusters/3) {
			time.Sleep(50 * time.Millisecond)
		}
		c.signal("engine-3", syscall.SIGKILL)
		killed := time.Now()
		eventually(b, "the other engines with everything", func() bool { return len(c.holders()["engine-3"]) == 0 })
		taken := time.Since(killed) - enginesLease
		r.finish(c)
		took := time.Since(began)
		for end := time.Now().Add(time.Minute); completed.Load() < int64(r.clusters) && time.Now().Before(end); {
			time.Sleep(50 * time.Millisecond)
		}
		cancel()
		<-followed
		if n := completed.Load(); n < int64(r.clusters) {
			b.Errorf("%d of %d clusters were seen to complete", n, r.clusters)
		}
		n := float64(r.clusters)
		b.ReportMetric(planned.Seconds(), "s-to-plan")
		b.ReportMetric(n/took.Seconds(), "updates/s")
		b.ReportMetric(taken.Seconds(), "s-beyond-lease")
		b.ReportMetric((number(log)-logBefore)/n, "log-bytes/cluster")
		b.ReportMetric(number("SELECT pg_total_relation_size('{schema}.records')::float8")/n, "stored-bytes/cluster")
		b.ReportMetric(number("SELECT max(octet_length(value))::float8 FROM {schema}.records"), "largest-row")
	}
}

// killed kills an engine and returns how much of the processors it took, in seconds.
func (c *crew) killed(name string) float64 {
	c.mu.Lock()
	cmd := c.engines[name]
	c.mu.Unlock()
	c.kill(name)
	return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
}

// serverCPU is how much of the processors the server's processes have taken that are there now and those that ended, in seconds.
func serverCPU() (seconds float64) {
	const ticks = 100 // a second
	for _, pid := range shared.Processes() {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		for _, i := range []int{11, 12} { // utime, stime
			n, _ := strconv.Atoi(fields[i])
			seconds += float64(n) / ticks
		}
	}
	return seconds
}

// BenchmarkTakeover kills one of two engines and measures how long it takes until the other one has all of its runs.
// beyond-lease is how much longer than a lease that is.
func BenchmarkTakeover(b *testing.B) {
	var took time.Duration
	for range b.N {
		c := newCrew(b, 2)
		c.declare(100, 12*time.Hour)
		c.start("one")
		c.start("two")
		eventually(b, "two engines with half of it each", func() bool {
			had := c.holders()
			return len(had["one"]) == 50 && len(had["two"]) == 50
		})
		c.signal("two", syscall.SIGKILL)
		began := time.Now()
		eventually(b, "the first one with everything", func() bool { return len(c.holders()["one"]) == 100 })
		took += time.Since(began)
	}
	b.ReportMetric(took.Seconds()/float64(b.N), "s/takeover")
	b.ReportMetric((took/time.Duration(b.N) - enginesLease).Seconds(), "s-beyond-lease")
}

// allOfThem is a limit of all clusters.
func allOfThem() *intstr.IntOrString {
	all := intstr.FromString("100%")
	return &all
}
