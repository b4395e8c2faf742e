package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"strings"
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
// of the records in them. Those of the placements' own journals stand apart:
// they tell what happened to a placement since it was declared, and the engine
// keeps them for as long as the placement.
type footprint struct {
	engine, world  int64
	kept, journals int64
}

// What may be taken up more than after the first scenario, whatever came in
// between. The heap keeps what the runtime and the packages remember of types.
// The world keeps the head and the ledgers of every cluster there ever was, of
// which there are 60 names, the engine its placements, their last snapshots, and
// what a kill left between two commits: plans of runs that were never recorded.
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

// measure looks at this process. What has just been ended may take a moment to
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
	return fmt.Sprintf("heap %d KiB, %d goroutines, %d descriptors, engine.db %d KiB, world.db %d KiB, records %d KiB, journals of placements %d KiB",
		h.heap>>10, h.goroutines, h.descriptors, f.engine>>10, f.world>>10, f.kept>>10, f.journals>>10)
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
	most := 2*allocated + spread*(h.files.kept+h.files.journals)
	more("bytes of the files", h.files.engine+h.files.world, 0, most)
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("%w: what is taken up is not where it was: %w", errBroken, errors.Join(errs...))
}

// footprint measures the files.
func (w *world) footprint(ctx context.Context) (f footprint, err error) {
	f.engine, f.world = w.engineFile.Stats().FileBytes, w.worldFile.Stats().FileBytes
	for _, file := range []*bolt.Store{w.engineFile, w.worldFile} {
		for r, err := range file.List(ctx, "") {
			if err != nil {
				return f, err
			}
			if n := int64(len(r.Key) + len(r.Value)); strings.HasPrefix(r.Key, "journal/placement.") {
				f.journals += n
			} else {
				f.kept += n
			}
		}
	}
	return f, nil
}
