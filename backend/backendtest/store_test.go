package backendtest_test

import (
	"context"
	"errors"
	"iter"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/backendtest"
	"github.com/slipway-dev/slipway/backend/memory"
)

// tiny is the simplest store there is, with one flaw or none. It cannot watch.
type tiny struct {
	flaw string

	mu      sync.Mutex
	records map[string]backend.Record
	stale   map[string]backend.Record
	last    int
	busy    atomic.Bool
}

func newTiny(flaw string) *tiny {
	return &tiny{flaw: flaw, records: map[string]backend.Record{}, stale: map[string]backend.Record{}}
}

func (s *tiny) admit(ctx context.Context, key string, value []byte) error {
	if err := backend.ValidateKey(key); err != nil && s.flaw != "any key" {
		return err
	}
	if err := backend.ValidateValue(value); err != nil && s.flaw != "any value" {
		return err
	}
	if s.flaw == "ignores context" {
		return nil
	}
	return ctx.Err()
}

func (s *tiny) Get(ctx context.Context, key string) (backend.Record, error) {
	if err := s.admit(ctx, key, nil); err != nil {
		return backend.Record{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.records[key]
	if !ok && s.flaw == "missing is empty" {
		return backend.Record{Key: key}, nil
	}
	if !ok {
		return backend.Record{}, backend.ErrNotFound
	}
	if old, ok := s.stale[key]; ok && s.flaw == "stale reads" {
		delete(s.stale, key)
		r = old
	}
	return s.out(r), nil
}

func (s *tiny) out(r backend.Record) backend.Record {
	if s.flaw != "aliases out" {
		r.Value = slices.Clone(r.Value)
	}
	return r
}

func (s *tiny) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	if err := s.admit(ctx, key, value); err != nil {
		return "", err
	}
	if s.busy.Load() {
		return "", errors.New("busy")
	}
	if s.flaw != "aliases in" {
		value = slices.Clone(value)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if current := s.records[key].Revision; !s.matches(current, prev) {
		return "", backend.ErrConflict
	}
	if s.flaw == "not atomic" {
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
	}
	s.stale[key] = s.records[key]
	s.records[key] = backend.Record{Key: key, Value: value, Revision: s.next(key)}
	return s.records[key].Revision, nil
}

func (s *tiny) matches(current, prev backend.Revision) bool {
	switch s.flaw {
	case "no compare":
		return prev == "" && current == "" || prev != "" && current != ""
	case "create overwrites":
		return current == prev || prev == ""
	case "put creates":
		return current == prev || current == ""
	}
	return current == prev
}

func (s *tiny) next(key string) backend.Revision {
	if s.flaw == "reuses revisions" {
		n, _ := strconv.Atoi(string(s.records[key].Revision))
		return backend.Revision(strconv.Itoa(n + 1))
	}
	s.last++
	return backend.Revision(strconv.Itoa(s.last))
}

func (s *tiny) Delete(ctx context.Context, key string, prev backend.Revision) error {
	if err := s.admit(ctx, key, nil); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.records[key]
	switch {
	case !ok && s.flaw == "delete is idempotent":
		return nil
	case !ok:
		return backend.ErrNotFound
	case r.Revision != prev && s.flaw != "delete ignores revision":
		return backend.ErrConflict
	}
	delete(s.records, key)
	return nil
}

func (s *tiny) List(ctx context.Context, prefix string) iter.Seq2[backend.Record, error] {
	switch s.flaw {
	case "prefix too short":
		prefix = prefix[:max(0, len(prefix)-1)]
	case "pages by offset":
		return s.byOffset(ctx, prefix)
	case "lists exclusively":
		return s.exclusive(prefix)
	}
	return func(yield func(backend.Record, error) bool) {
		if err := ctx.Err(); err != nil && s.flaw != "ignores context" {
			yield(backend.Record{}, err)
			return
		}
		for _, r := range s.matching(prefix) {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (s *tiny) matching(prefix string) []backend.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []backend.Record
	for _, key := range slices.Sorted(maps.Keys(s.records)) {
		if strings.HasPrefix(key, prefix) {
			out = append(out, s.out(s.records[key]))
		}
	}
	if s.flaw == "unordered" {
		slices.Reverse(out)
	}
	if s.flaw == "misses the last" && len(out) > 500 {
		out = out[:500]
	}
	return out
}

// byOffset loses and repeats keys when others come and go.
func (s *tiny) byOffset(ctx context.Context, prefix string) iter.Seq2[backend.Record, error] {
	return func(yield func(backend.Record, error) bool) {
		for i := 0; ctx.Err() == nil; i++ {
			page := s.matching(prefix)
			if i >= len(page) || !yield(page[i], nil) {
				return
			}
		}
		yield(backend.Record{}, ctx.Err())
	}
}

// exclusive refuses writes during a list.
func (s *tiny) exclusive(prefix string) iter.Seq2[backend.Record, error] {
	return func(yield func(backend.Record, error) bool) {
		s.busy.Store(true)
		defer s.busy.Store(false)
		for _, r := range s.matching(prefix) {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// watching is a store that can watch, but not well.
type watching struct {
	*memory.Store
	flaw string
}

func (w watching) Watch(ctx context.Context, prefix string) iter.Seq2[backend.Change, error] {
	if w.flaw == "prefix of watch" {
		prefix = strings.TrimSuffix(prefix, "/")
	}
	return func(yield func(backend.Change, error) bool) {
		var held *backend.Change
		n := 0
		for c, err := range w.Store.Watch(ctx, prefix) {
			n++
			switch {
			case err != nil && w.flaw == "silent end":
				return
			case err != nil || w.flaw == "":
			case w.flaw == "no deletes" && c.Deleted, w.flaw == "nothing later" && n > 1, w.flaw == "no existing" && n <= 3:
				continue
			case w.flaw == "loses the last":
				c, held = swap(c, held)
				if c.Key == "" {
					continue
				}
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// swap holds a change of another key than w/first back until the next comes.
func swap(c backend.Change, held *backend.Change) (backend.Change, *backend.Change) {
	if c.Key == "w/first" || c.Key == "w/later" {
		return c, held
	}
	if held == nil {
		return backend.Change{}, &c
	}
	return *held, &c
}

// violations returns the names of the cases that fail, in a bubble so that
// waiting in vain takes no time.
func violations(t *testing.T, check func(ctx context.Context) error) string {
	var text string
	synctest.Test(t, func(t *testing.T) {
		if err := check(t.Context()); err != nil {
			text = "\n" + err.Error()
		}
	})
	return text
}

func TestSuiteAcceptsCorrectStores(t *testing.T) {
	for name, open := range map[string]func() (backend.Store, error){
		"tiny":   func() (backend.Store, error) { return newTiny(""), nil },
		"memory": func() (backend.Store, error) { return watching{memory.NewStore(), ""}, nil },
		"batch":  func() (backend.Store, error) { return &batching{Store: memory.NewStore()}, nil },
	} {
		if got := violations(t, func(ctx context.Context) error { return backendtest.CheckStore(ctx, open) }); got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestSuiteCatchesBrokenStores(t *testing.T) {
	for flaw, name := range map[string]string{
		"no compare":              "put-stale",
		"create overwrites":       "create-existing",
		"put creates":             "put-deleted",
		"missing is empty":        "get-missing",
		"aliases in":              "value-in",
		"aliases out":             "value-out",
		"reuses revisions":        "revision-reuse",
		"prefix too short":        "list-prefix",
		"unordered":               "list-order",
		"misses the last":         "list-order",
		"pages by offset":         "list-stable",
		"lists exclusively":       "list-break",
		"delete ignores revision": "delete-stale",
		"delete is idempotent":    "delete-missing",
		"not atomic":              "race-counter",
		"stale reads":             "race-linear",
		"any key":                 "keys",
		"any value":               "value-sizes",
		"ignores context":         "context",
	} {
		t.Run(flaw, func(t *testing.T) {
			got := violations(t, func(ctx context.Context) error {
				return checkOne[backend.Store](ctx, name, backendtest.StoreCases(), newTiny(flaw))
			})
			if got == "" {
				t.Errorf("case %s does not catch it", name)
			}
		})
	}
}

func TestSuiteCatchesBrokenWatches(t *testing.T) {
	for flaw, name := range map[string]string{
		"no existing":     "watch-existing",
		"nothing later":   "watch-writes",
		"no deletes":      "watch-deletes",
		"loses the last":  "watch-burst",
		"silent end":      "watch-end",
		"prefix of watch": "watch-existing",
	} {
		t.Run(flaw, func(t *testing.T) {
			got := violations(t, func(ctx context.Context) error {
				return checkOne[backend.Store](ctx, name, backendtest.StoreCases(), watching{memory.NewStore(), flaw})
			})
			if got == "" {
				t.Errorf("case %s does not catch it", name)
			}
		})
	}
}

func TestSuiteCatchesBrokenBatches(t *testing.T) {
	for flaw, name := range map[string]string{
		"backwards":            "batch-order",
		"no revisions":         "batch-revisions",
		"goes on":              "batch-conflict",
		"all or nothing":       "batch-conflict",
		"as it was before":     "batch-same-key",
		"refuses none":         "batch-empty",
		"reports nothing":      "batch-watch",
		"reports what was not": "batch-watch",
		"forgets preceding":    "batch-invalid",
		"done after its time":  "batch-context",
	} {
		t.Run(flaw, func(t *testing.T) {
			got := violations(t, func(ctx context.Context) error {
				return checkOne[backend.Store](ctx, name, backendtest.StoreCases(), &batching{Store: memory.NewStore(), flaw: flaw})
			})
			if got == "" {
				t.Errorf("case %s does not catch it", name)
			}
		})
	}
	for flaw, name := range map[string]string{
		"delete is idempotent": "batch-missing",
		"any key":              "batch-invalid",
		"any value":            "batch-invalid",
		"aliases in":           "batch-values",
		"ignores context":      "batch-context",
		"not atomic":           "batch-race",
	} {
		t.Run("one by one, "+flaw, func(t *testing.T) {
			got := violations(t, func(ctx context.Context) error {
				return checkOne[backend.Store](ctx, name, backendtest.StoreCases(), newTiny(flaw))
			})
			if got == "" {
				t.Errorf("case %s does not catch it", name)
			}
		})
	}
}

// TestCheckStoreReportsAll: one error names every case and its sentence.
func TestCheckStoreReportsAll(t *testing.T) {
	got := violations(t, func(ctx context.Context) error {
		return backendtest.CheckStore(ctx, func() (backend.Store, error) { return newTiny("create overwrites"), nil })
	})
	for _, want := range []string{"\ncreate-existing: ", "\nrace-create: ", "(a key that exists already is ErrConflict)"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in %s", want, got)
		}
	}
}

// checkOne runs the case of that name.
func checkOne[T any](ctx context.Context, name string, cases []backendtest.Case[T], subject T) error {
	for _, c := range cases {
		if c.Name == name {
			return c.Run(ctx, subject)
		}
	}
	return nil
}
