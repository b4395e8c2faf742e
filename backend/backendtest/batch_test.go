package backendtest_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
)

// batching is a store that makes several writes at once, with one flaw or none.
type batching struct {
	*memory.Store
	flaw string

	mu     sync.Mutex
	hidden []backend.Revision
	made   []string
}

func (s *batching) WriteAll(ctx context.Context, writes []backend.Write) ([]backend.Revision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.flaw {
	case "backwards":
		writes = slices.Clone(writes)
		slices.Reverse(writes)
	case "goes on":
		return s.goesOn(ctx, writes)
	case "as it was before", "all or nothing":
		if n, err := s.before(ctx, writes); err != nil {
			made, _ := s.Store.WriteAll(ctx, writes[:n])
			return made, err
		}
	case "refuses none":
		if len(writes) == 0 {
			return nil, errors.New("nothing to write")
		}
	case "forgets preceding":
		for _, w := range writes {
			if err := errors.Join(backend.ValidateKey(w.Key), backend.ValidateValue(w.Value)); err != nil {
				return nil, err
			}
		}
	case "done after its time":
		if ctx.Err() != nil {
			_, _ = s.Store.WriteAll(context.WithoutCancel(ctx), writes[1:])
			return nil, ctx.Err()
		}
	}
	made, err := s.Store.WriteAll(ctx, writes)
	s.hidden = append(s.hidden, made...)
	if err != nil && s.flaw == "reports what was not" {
		for _, w := range writes[len(made):] {
			s.made = append(s.made, w.Key)
		}
	}
	if s.flaw == "no revisions" {
		clear(made)
	}
	return made, err
}

// goesOn also makes the writes after a failed one.
func (s *batching) goesOn(ctx context.Context, writes []backend.Write) (made []backend.Revision, err error) {
	for i := range writes {
		one, failed := s.Store.WriteAll(ctx, writes[i:i+1])
		if failed != nil && err == nil {
			err = failed
		}
		if err == nil {
			made = append(made, one...)
		}
	}
	return made, err
}

// before finds the first write whose key was at another revision before the
// batch began, and how many writes it lets through.
func (s *batching) before(ctx context.Context, writes []backend.Write) (int, error) {
	for i, w := range writes {
		r, _ := s.Get(ctx, w.Key)
		if r.Revision == w.Prev {
			continue
		}
		if s.flaw == "all or nothing" {
			i = 0
		}
		return i, backend.ErrConflict
	}
	return 0, nil
}

// Watch omits writes of a batch, or yields writes that were not made.
func (s *batching) Watch(ctx context.Context, prefix string) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		for c, err := range s.Store.Watch(ctx, prefix) {
			s.mu.Lock()
			hide := s.flaw == "reports nothing" && slices.Contains(s.hidden, c.Revision)
			also := s.made
			s.made = nil
			s.mu.Unlock()
			if !hide && !yield(c, err) {
				return
			}
			for _, key := range also {
				if strings.HasPrefix(key, prefix) && !yield(backend.Change{Key: key, Revision: "0"}, nil) {
					return
				}
			}
		}
	}
}
