package backendtest_test

import (
	"context"
	"regexp"
	"runtime"
	"testing"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/backendtest"
)

// loose is a store that occasionally violates its contract, in ways that a single caller, or a
// caller that only reads at the end, hardly notices.
type loose struct {
	*tiny
	flaw  string
	calls int
	late  func()
}

// often reports whether it is time to break it: at every nth call.
func (s *loose) often(flaw string, n int) bool {
	if s.flaw != flaw {
		return false
	}
	s.calls++
	return s.calls%n == 0
}

// catchUp makes acknowledged writes visible.
func (s *loose) catchUp() {
	if s.late != nil {
		s.late()
		s.late = nil
	}
}

func (s *loose) Get(ctx context.Context, key string) (backend.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.catchUp()
	r, ok := s.records[key]
	if old := s.stale[key]; old.Revision != "" && s.often("a cache that lags", 40) {
		return old, nil
	}
	if s.often("a value and the revision of another", 40) && s.stale[key].Revision != "" {
		r.Value = s.stale[key].Value
	}
	if !ok || s.often("forgets for a moment", 40) {
		return backend.Record{}, backend.ErrNotFound
	}
	return s.out(r), ctx.Err()
}

func (s *loose) Put(_ context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	current := s.records[key]
	if current.Revision != prev || s.often("refuses what it must take", 40) {
		return "", backend.ErrConflict
	}
	if s.often("checks outside the lock", 3) {
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
	}
	next := backend.Record{Key: key, Value: value, Revision: s.next(key)}
	if current.Revision != "" && s.often("uses a revision again", 40) {
		next.Revision = current.Revision
	}
	apply := func() { s.stale[key], s.records[key] = current, next }
	switch {
	case s.often("loses an update", 40):
	case s.often("acknowledges before it is visible", 10):
		s.late = apply
	default:
		apply()
	}
	return next.Revision, nil
}

func (s *loose) Delete(ctx context.Context, key string, prev backend.Revision) error {
	switch s.flaw {
	case "deletes an old revision":
		s.mu.Lock()
		defer s.mu.Unlock()
		if r, ok := s.records[key]; ok && s.stale[key].Revision == prev && r.Revision != prev {
			delete(s.records, key)
			return nil
		}
		return s.remove(key, prev)
	case "deletes nothing":
		if r, err := s.Get(ctx, key); err == nil && r.Revision == prev {
			return nil
		}
	}
	return s.tiny.Delete(ctx, key, prev)
}

// remove is Delete of a correct store that is locked.
func (s *loose) remove(key string, prev backend.Revision) error {
	switch r, ok := s.records[key]; {
	case !ok:
		return backend.ErrNotFound
	case r.Revision != prev:
		return backend.ErrConflict
	}
	delete(s.records, key)
	return nil
}

// TestLinearizabilityIsProven: every flaw is found, even if the store fails and its callers do
// not know the result, and a correct store passes.
func TestLinearizabilityIsProven(t *testing.T) {
	for flaw, broken := range map[string]bool{
		"":                                    false,
		"a cache that lags":                   true,
		"a value and the revision of another": true,
		"forgets for a moment":                true,
		"refuses what it must take":           true,
		"checks outside the lock":             true,
		"uses a revision again":               true,
		"loses an update":                     true,
		"acknowledges before it is visible":   true,
		"deletes an old revision":             true,
		"deletes nothing":                     true,
	} {
		for _, name := range []string{"race-linear", "ambiguous-linear"} {
			t.Run(name+", "+flaw, func(t *testing.T) {
				got := violations(t, func(ctx context.Context) error {
					return checkOne[backend.Store](ctx, name, backendtest.StoreCases(), &loose{tiny: newTiny(""), flaw: flaw})
				})
				if (got != "") != broken {
					t.Errorf("broken is %v, and the case says %q", broken, got)
				}
			})
		}
	}
}

// TestAFailingHistoryIsReadable: it contains the key, and every call with its concurrent calls,
// its times and its result.
func TestAFailingHistoryIsReadable(t *testing.T) {
	got := violations(t, func(ctx context.Context) error {
		return checkOne[backend.Store](ctx, "race-linear", backendtest.StoreCases(), &loose{tiny: newTiny(""), flaw: "loses an update"})
	})
	for _, want := range []string{
		`key linear/\d+/[01]: no order of the calls explains what they returned`,
		`\n +\d+-\d+ +client \d: get: not found`,
		`client \d: put \d\.\d+ at revision "\d*": \d\.\d+ is revision "\d+"`,
		`client \d: (put \S+|delete) at revision "\d*": conflict`,
	} {
		if !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("no %s in %.3000s", want, got)
		}
	}
}
