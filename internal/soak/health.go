package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/slipway-dev/slipway/internal/soak/environment"
	"github.com/slipway-dev/slipway/internal/soak/laws"
)

// health contains the resources of a process and its files between two scenarios.
type health struct {
	heap        uint64
	goroutines  int
	descriptors int
	files       environment.Footprint
}

// These are the permitted increases since the first scenario. The heap keeps type information of
// the runtime and the packages. The environment keeps the head and the ledgers of every cluster
// that ever existed; there are 60 names. remainsMost limits the contents of the engines' file,
// which must not grow with kills or scenarios.
const (
	heapMargin       = 16 << 20
	goroutineMargin  = 2
	descriptorMargin = 2
	keptMargin       = 512 << 10
	// A file has allocated bytes in any case and is at most spread times as large
	// as the records in it.
	allocated = 1<<20 + 256<<10
	spread    = 4
)

// measure reads the state of this process. Recently ended goroutines and files may need a moment
// to disappear.
func measure(files environment.Footprint) health {
	h := health{files: files}
	for range 20 {
		runtime.GC()
		if h.goroutines = runtime.NumGoroutine(); h.goroutines <= goroutineMargin+2 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	h.heap = sample[0].Value.Uint64()
	if open, err := os.ReadDir("/proc/self/fd"); err == nil {
		h.descriptors = len(open)
	}
	return h
}

func (h *health) String() string {
	f := &h.files
	return fmt.Sprintf("heap %d KiB, %d goroutines, %d descriptors, engine.db %d KiB in %d records, clusters.db %d KiB, all records %d KiB",
		h.heap>>10, h.goroutines, h.descriptors, f.EngineBytes>>10, f.Records, f.ClusterBytes>>10, f.RecordBytes>>10)
}

// against returns an error that lists the increases since base.
func (h *health) against(base *health) error {
	var errs []error
	more := func(what string, now, then, margin int64) {
		if now > then+margin {
			errs = append(errs, fmt.Errorf("%s: %d, was %d, may be %d more", what, now, then, margin))
		}
	}
	more("bytes of the heap", int64(h.heap), int64(base.heap), heapMargin)
	more("goroutines", int64(h.goroutines), int64(base.goroutines), goroutineMargin)
	more("open descriptors", int64(h.descriptors), int64(base.descriptors), descriptorMargin)
	more("bytes of records", h.files.RecordBytes, base.files.RecordBytes, keptMargin)
	more("bytes of the files", h.files.EngineBytes+h.files.ClusterBytes, 0, 2*allocated+spread*h.files.RecordBytes)
	more("records of the engines", int64(h.files.Records), 0, remainsMost)
	if n := len(h.files.Orphans); n > 0 {
		errs = append(errs, fmt.Errorf("%d records of runs that are gone, as %s", n, h.files.Orphans[0]))
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%w: what is taken up is not where it was: %w", laws.ErrViolated, errors.Join(errs...))
}
