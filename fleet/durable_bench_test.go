package fleet_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/internal/storebench"
)

// BenchmarkDurable drives 64 runs over 200 clusters each at the same time on a bolt store, with an
// updater that takes no time. A transition is one committed save of a run. For comparison it
// measures, on the same file and in the same run, a bare loop of group commits by 64 clients that
// write as many bytes as a transition does, and 1 KiB; and one writer that appends to a file and
// syncs it.
func BenchmarkDurable(b *testing.B) {
	b.Run("runs=64", func(b *testing.B) { benchmarkDurable(b, 64, 200) })
}

func benchmarkDurable(b *testing.B, runs, clusters int) {
	var all storebench.Measured
	var syncs int64
	var same, small, floor float64
	for b.Loop() {
		b.StopTimer()
		path := filepath.Join(b.TempDir(), "state.db")
		disk, err := bolt.Open(path, bolt.Options{})
		if err != nil {
			b.Fatal(err)
		}
		store := storebench.Count(disk)
		many := storebench.NewRuns(b, store, runs, clusters)
		before := disk.Stats().Syncs
		m := many.Measure(b, store)
		all.Add(m)
		syncs += disk.Stats().Syncs - before
		if err := disk.Close(); err != nil {
			b.Fatal(err)
		}
		same += bareCommits(b, path, runs, m.SaveBytes())
		small += bareCommits(b, path, runs, 1<<10)
		floor += syncedAppends(b, path)
		b.StartTimer()
	}
	n := float64(b.N)
	all.Report(b, same/n)
	b.ReportMetric(float64(syncs)/float64(all.Saves), "fsyncs/transition")
	b.ReportMetric(float64(all.Saves)/all.Took.Seconds()/(small/n), "of-bare-1KiB")
	b.ReportMetric(floor/n, "fdatasync-floor/s")
}

// bareTime is the duration of each comparison loop.
const bareTime = time.Second

// bareCommits returns the number of acknowledged puts per second of a given size. Clients write one
// after the other, and one goroutine commits all puts that have arrived.
func bareCommits(b *testing.B, path string, clients, size int) float64 {
	b.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType})
	if err != nil {
		b.Fatal(err)
	}
	puts := make(chan barePut, 1024)
	var committer, writers sync.WaitGroup
	committer.Go(func() { err = errors.Join(err, commitPuts(db, puts)) })
	var n atomic.Int64
	began := time.Now()
	for range clients {
		writers.Go(func() {
			for value := make([]byte, size); time.Since(began) < bareTime; n.Add(1) {
				p := barePut{fmt.Appendf(nil, "%08d", rand.IntN(200_000)), value, make(chan struct{})}
				puts <- p
				<-p.done
			}
		})
	}
	writers.Wait()
	took := time.Since(began)
	close(puts)
	committer.Wait()
	if err := errors.Join(err, db.Close()); err != nil {
		b.Fatal(err)
	}
	return float64(n.Load()) / took.Seconds()
}

type barePut struct {
	key, value []byte
	done       chan struct{}
}

// commitPuts commits the puts that have arrived, at most 512 at a time.
func commitPuts(db *bbolt.DB, puts <-chan barePut) error {
	for first := range puts {
		batch := []barePut{first}
		for len(puts) > 0 && len(batch) < 512 {
			batch = append(batch, <-puts)
		}
		err := db.Update(func(tx *bbolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists([]byte("bare"))
			for i := 0; err == nil && i < len(batch); i++ {
				err = bucket.Put(batch[i].key, batch[i].value)
			}
			return err
		})
		for _, p := range batch {
			close(p.done)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// syncedAppends returns the number of appends of 1 KiB that one writer syncs in a second.
func syncedAppends(b *testing.B, path string) float64 {
	b.Helper()
	f, err := os.OpenFile(path+".floor", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	n, began := 0, time.Now()
	for value := make([]byte, 1<<10); time.Since(began) < bareTime; n++ {
		if _, err := f.Write(value); err != nil {
			b.Fatal(err)
		}
		if err := syncData(f); err != nil {
			b.Fatal(err)
		}
	}
	took := time.Since(began)
	if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
		b.Fatal(err)
	}
	return float64(n) / took.Seconds()
}
