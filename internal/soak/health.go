package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"time"

	"github.com/slipway-dev/slipway/backend/bolt"
)

// health is what a process and its files take up between two scenarios.
type health struct {
	heap        uint64
	goroutines  int
	descriptors int
	files       footprint
}

// footprint is what two files hold after compaction: their sizes, and the bytes
// of the records in them.
type footprint struct {
	engine, environment int64
	kept                int64
	// records is how many the engines have, strays the keys among them of what
	// belongs to no run.
	records int
	strays  []string
}

// What may be taken up more than after the first scenario, whatever came in
// between. The heap keeps what the runtime and the packages remember of types.
// The environment keeps the head and the ledgers of every cluster there ever was, of
// which there are 60 names. Of the engines' file remainsMost says what is in it
// at most: nothing grows there with the kills or the scenarios.
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

// measure reads the state of this process. What has just been ended may take a moment to
// go.
func measure(files footprint) health {
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
	return fmt.Sprintf("heap %d KiB, %d goroutines, %d descriptors, engine.db %d KiB in %d records, world.db %d KiB, all records %d KiB",
		h.heap>>10, h.goroutines, h.descriptors, f.engine>>10, f.records, f.environment>>10, f.kept>>10)
}

// against returns what is not where it was.
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
	more("bytes of records", h.files.kept, base.files.kept, keptMargin)
	more("bytes of the files", h.files.engine+h.files.environment, 0, 2*allocated+spread*h.files.kept)
	more("records of the engines", int64(h.files.records), 0, remainsMost)
	if n := len(h.files.strays); n > 0 {
		errs = append(errs, fmt.Errorf("%d records of runs that are gone, as %s", n, h.files.strays[0]))
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%w: what is taken up is not where it was: %w", errBroken, errors.Join(errs...))
}

// footprint measures the files.
func (w *environment) footprint(ctx context.Context) (f footprint, err error) {
	f.engine, f.environment = w.engineFile.Stats().FileBytes, w.worldFile.Stats().FileBytes
	for _, file := range []*bolt.Store{w.engineFile, w.worldFile} {
		for r, err := range file.List(ctx, "") {
			if err != nil {
				return f, err
			}
			f.kept += int64(len(r.Key) + len(r.Value))
			if file == w.engineFile {
				f.take(r.Key)
			}
		}
	}
	return f, nil
}

// take counts a record of the engines.
func (f *footprint) take(key string) {
	f.records++
	if isStray(key) {
		f.strays = append(f.strays, key)
	}
}
