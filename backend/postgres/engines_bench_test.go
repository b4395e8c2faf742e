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

	"github.com/slipway-dev/slipway/internal/storebench"
	"github.com/slipway-dev/slipway/stages"
)

// rolling starts idle engines, and a host that has declared a rollout.
func rolling(b *testing.B, r storebench.Rollout, engines int) (*crew, *storebench.Host) {
	b.Helper()
	c := newCrew(b, 0)
	c.members = r.String()
	for i := range engines {
		c.start(fmt.Sprint("engine-", i))
	}
	time.Sleep(2 * time.Second)
	h := r.Declare(b, c.store)
	c.host = h.Engine
	return c, h
}

// BenchmarkEngines runs engines in separate processes on one store, which roll out a ConfigMap to
// 10,000 clusters with calls of 20 ms. updates/s is their total rate, db-cores and engine-cores
// are the processor usage of the server and of the engines.
func BenchmarkEngines(b *testing.B) {
	r := storebench.Rollout{Clusters: 10_000, Placements: 40, Delay: 20 * time.Millisecond}
	for _, engines := range []int{1, 2, 4, 8} {
		b.Run(fmt.Sprint("engines=", engines), func(b *testing.B) {
			var took time.Duration
			var db, own float64
			for range b.N {
				c, h := rolling(b, r, engines)
				began, dbBefore := time.Now(), serverCPU()
				h.Begin(b)
				h.Finish(b)
				took += time.Since(began)
				db += serverCPU() - dbBefore
				for _, name := range c.names() {
					own += c.killed(name)
				}
			}
			b.ReportMetric(float64(b.N*r.Clusters)/took.Seconds(), "updates/s")
			b.ReportMetric(db/took.Seconds(), "db-cores")
			b.ReportMetric(own/took.Seconds(), "engine-cores")
		})
	}
}

// BenchmarkLargeFleet rolls out to 100,000 clusters with four engines, while another process
// follows every event. One of the engines is killed after a third: s-beyond-lease is the time
// beyond a lease until other engines have its runs. The bytes are the sizes of the server's log,
// and of its table and indexes at the end.
func BenchmarkLargeFleet(b *testing.B) {
	r := storebench.Rollout{Clusters: 100_000, Placements: 40, Delay: 20 * time.Millisecond}
	for range b.N {
		c, h := rolling(b, r, 4)
		number := func(query string) (n float64) {
			if err := session(b, shared.DSN()).QueryRow(b.Context(), strings.ReplaceAll(query, "{schema}", c.schema)).Scan(&n); err != nil {
				b.Fatal(err)
			}
			return n
		}
		const log = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8"
		logBefore, began := number(log), time.Now()
		h.Begin(b)
		planned := time.Since(began)
		var completed atomic.Int64
		follower, err := c.host.Follow("")
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
		for completed.Load() < int64(r.Clusters/3) {
			time.Sleep(50 * time.Millisecond)
		}
		c.signal("engine-3", syscall.SIGKILL)
		killed := time.Now()
		eventually(b, "the other engines with everything", func() bool { return len(c.holders()["engine-3"]) == 0 })
		taken := time.Since(killed) - enginesLease
		h.Finish(b)
		took := time.Since(began)
		for end := time.Now().Add(time.Minute); completed.Load() < int64(r.Clusters) && time.Now().Before(end); {
			time.Sleep(50 * time.Millisecond)
		}
		cancel()
		<-followed
		if n := completed.Load(); n < int64(r.Clusters) {
			b.Errorf("%d of %d clusters were seen to complete", n, r.Clusters)
		}
		n := float64(r.Clusters)
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

// serverCPU returns the processor time of the server's running and ended processes, in seconds.
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

// BenchmarkTakeover kills one of two engines and measures the time until the other one has all of
// its runs. beyond-lease is the part of this time beyond a lease.
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
