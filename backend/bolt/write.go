package bolt

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/slipway-dev/slipway/backend"
)

// Put writes value if the revision of key is prev, and returns when it is on the disk. See
// [backend.Store].
func (s *Store) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	made, err := s.WriteAll(ctx, []backend.Write{{Key: key, Value: value, Prev: prev}})
	if err != nil {
		return "", err
	}
	return made[0], nil
}

// Delete removes key if its revision is prev, and returns when the removal is on the disk. See
// [backend.Store].
func (s *Store) Delete(ctx context.Context, key string, prev backend.Revision) error {
	_, err := s.WriteAll(ctx, []backend.Write{{Key: key, Prev: prev, Delete: true}})
	return err
}

// WriteAll makes the writes in one commit. See [backend.Batcher].
func (s *Store) WriteAll(ctx context.Context, writes []backend.Write) ([]backend.Revision, error) {
	if len(writes) == 0 {
		return nil, ctx.Err()
	}
	op, key := names(writes[0])
	if err := ctx.Err(); err != nil {
		return nil, failed(op, key, err)
	}
	if s.options.ReadOnly {
		return nil, failed(op, key, ErrReadOnly)
	}
	return s.ask(ctx, prepared(writes))
}

// ask enqueues a request and waits for the answer.
func (s *Store) ask(ctx context.Context, r *request) ([]backend.Revision, error) {
	if err := s.enqueue(ctx, r); err != nil {
		r.left = true
		return nil, r.failed(err)
	}
	return r.wait(ctx, s)
}

func (s *Store) enqueue(ctx context.Context, r *request) error {
	select {
	case <-s.committer.closing:
		return ErrClosed
	default:
	}
	select {
	case s.committer.requests <- r:
		return nil
	case <-s.committer.done:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// names returns the operation and the key of a write for errors.
func names(w backend.Write) (op, key string) {
	if w.Delete {
		return "delete", w.Key
	}
	return "put", w.Key
}

// request is a batch of writes, or a job, for the committer.
type request struct {
	writes []backend.Write
	// stored are copies of the values, each behind the space for its seal: a caller that did not
	// wait for the answer may reuse its own slices.
	stored [][]byte
	// job, if not nil, is a function that the committer runs instead of writes. No commit happens
	// during the job.
	job func() error
	// taken is set by the committer, or by a caller that cancels, whichever comes first.
	taken atomic.Bool
	// left reports whether the caller cancelled.
	left bool
	// made and err are the answer, once done is closed.
	made []backend.Revision
	err  error
	done chan struct{}
}

func prepared(writes []backend.Write) *request {
	r := &request{writes: slices.Clone(writes), stored: make([][]byte, len(writes)), done: make(chan struct{})}
	for i := range r.writes {
		w := &r.writes[i]
		if valid(w) == nil && !w.Delete {
			r.stored[i] = append(make([]byte, sealLen, sealLen+len(w.Value)), w.Value...)
		}
	}
	return r
}

// wait waits for the answer. If the context ends first, it cancels the request or, if the
// committer has taken it, returns without learning its outcome.
func (r *request) wait(ctx context.Context, s *Store) ([]backend.Revision, error) {
	select {
	case <-r.done:
		return r.made, r.err
	case <-s.committer.done:
		return r.answered(ErrClosed)
	case <-ctx.Done():
		r.left = r.taken.CompareAndSwap(false, true)
		return r.answered(ctx.Err())
	}
}

// answered returns the answer if there is one, and err otherwise.
func (r *request) answered(err error) ([]backend.Revision, error) {
	select {
	case <-r.done:
		return r.made, r.err
	default:
		return nil, r.failed(err)
	}
}

// failed wraps the common reason of all failed writes as an error of the first write.
func (r *request) failed(err error) error {
	if len(r.writes) == 0 {
		return err
	}
	op, key := names(r.writes[0])
	return failed(op, key, err)
}
