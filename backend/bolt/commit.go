package bolt

import (
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/slipway-dev/slipway/backend"
)

const (
	// maxRequests is the length of the queue; callers block while it is full.
	maxRequests = 1024
	// commitBytes closes a commit: it takes no further request once it has so many bytes.
	commitBytes = 8 << 20
	// The next commit waits for as many requests as the last commit had, because the callers that it
	// answered are about to write again, and one sync is enough for all. It waits for the last
	// commit's duration divided by lingerShare, and for lingerMost at most.
	lingerShare = 1
	lingerMost  = 2 * time.Millisecond
)

// serve commits the queued requests until the store is closed.
func (s *Store) serve() {
	defer close(s.committer.done)
	for {
		select {
		case <-s.committer.closing:
			return
		case r := <-s.committer.requests:
			batch := s.gather(r)
			began := time.Now()
			s.answer(batch)
			s.committer.lastBatch, s.committer.lastTook = max(len(batch), s.committer.lastBatch*7/8), time.Since(began)
		}
	}
}

// gather returns the requests that share the next commit: the queued requests, and those that
// arrive during the wait. A writer does not wait if the last batches had one request each.
func (s *Store) gather(first *request) []*request {
	batch, size := []*request{first}, first.size()
	timer := time.NewTimer(min(s.committer.lastTook/lingerShare, lingerMost))
	defer timer.Stop()
	for len(batch) < maxRequests && size < commitBytes {
		var r *request
		select {
		case r = <-s.committer.requests:
		default:
			if len(batch) >= s.committer.lastBatch {
				return batch
			}
			select {
			case r = <-s.committer.requests:
			case <-timer.C:
				return batch
			}
		}
		batch, size = append(batch, r), size+r.size()
	}
	return batch
}

func (r *request) size() (n int) {
	for _, b := range r.stored {
		n += len(b)
	}
	return n
}

// answer carries out the requests and answers them. Jobs come after the writes that arrived with
// them.
func (s *Store) answer(batch []*request) {
	var writes, jobs []*request
	for _, r := range batch {
		switch {
		case !r.taken.CompareAndSwap(false, true):
		case r.job != nil:
			jobs = append(jobs, r)
		default:
			writes = append(writes, r)
		}
	}
	if len(writes) > 0 {
		s.commit(writes)
	}
	for _, r := range jobs {
		r.err = s.job(r.job)
		close(r.done)
	}
}

// job runs f exclusively.
func (s *Store) job(f func() error) error {
	if err := s.broken(); err != nil {
		return err
	}
	return s.breakIfPanicked(guarded(f))
}

func (s *Store) broken() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.failed
}

// commit makes the writes of all requests in one transaction and answers.
func (s *Store) commit(batch []*request) {
	err := s.broken()
	if err == nil {
		err = s.write(batch)
	}
	for _, r := range batch {
		if err != nil {
			r.made, r.err = nil, r.failed(err)
		}
		close(r.done)
	}
}

// write is one transaction. If it returns nil, its writes are durable; if it returns an error,
// their outcome is unknown.
func (s *Store) write(batch []*request) error {
	t := &transaction{head: s.head, before: past{}}
	err := guarded(func() error {
		tx, err := s.db.Begin(true)
		if err != nil {
			return err
		}
		t.tx = tx
		return t.fill(batch)
	})
	if errors.Is(err, errBoltPanicked) {
		return s.breakIfPanicked(err)
	}
	if err != nil || len(t.changes) == 0 {
		t.rollback()
		return err
	}
	s.committing(t.before)
	s.hold()
	if err := guarded(t.tx.Commit); err != nil {
		return s.fail(err)
	}
	s.hold()
	s.count()
	s.committed(t)
	return nil
}

// committing makes readers see the records before the commit.
func (s *Store) committing(before past) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = before
}

// committed makes readers see the records of the commit.
func (s *Store) committed(t *transaction) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.head = nil, t.head
	for _, c := range t.changes {
		s.feed.Announce(c)
	}
}

// hold calls the hook of a test.
func (s *Store) hold() {
	if s.slow != nil {
		s.slow()
	}
}

// count counts a commit: one sync for the pages, one for the meta page, and one if the file grew.
func (s *Store) count() {
	s.counted.commits.Add(1)
	s.counted.syncs.Add(2)
	if size := fileSize(s.path); size != s.counted.size.Swap(size) {
		s.counted.syncs.Add(1)
	}
}

// fail decides the consequence of a failed commit.
func (s *Store) fail(err error) error {
	s.committing(nil)
	if notWritten(err) {
		s.db.backups.Wait() // other readers may still hold the file
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(err, errBoltPanicked) {
		s.boltPanicked = true
		err = errors.New(err.Error()) // hides ErrPermanent, because the commit may have succeeded
	}
	if !notWritten(err) {
		s.failLocked(fmt.Errorf("%w: %w", ErrBroken, err))
		return s.failed
	}
	reopened := errors.Join(guarded(s.db.Close), s.open())
	if reopened != nil {
		s.failLocked(fmt.Errorf("%w: %w, and then: %w", ErrBroken, err, reopened))
		return s.failed
	}
	return err
}

// transaction is a commit under construction.
type transaction struct {
	tx      *bbolt.Tx
	records *bbolt.Bucket
	head    head
	before  past
	changes []backend.Change
}

// fill makes the writes of all requests and stores the new head.
func (t *transaction) fill(batch []*request) error {
	t.records = t.tx.Bucket([]byte(recordsBucket))
	for _, r := range batch {
		if err := t.make(r); err != nil {
			return err
		}
	}
	if len(t.changes) == 0 {
		return nil
	}
	return t.tx.Bucket([]byte(headBucket)).Put([]byte(headKey), t.head.encode())
}

// make makes the writes of one request, up to the first refused one. It returns an error that
// fails the whole transaction.
func (t *transaction) make(r *request) error {
	r.made = make([]backend.Revision, 0, len(r.writes))
	for i := range r.writes {
		w := &r.writes[i]
		rev, refused, err := t.one(w, r.stored[i])
		if err != nil {
			return err
		}
		if refused != nil {
			op, key := names(*w)
			r.err = failed(op, key, refused)
			return nil
		}
		r.made = append(r.made, rev)
		t.changes = append(t.changes, backend.Change{Key: w.Key, Revision: rev, Deleted: w.Delete})
	}
	return nil
}

// one makes one write, or returns the reason for refusing it.
func (t *transaction) one(w *backend.Write, value []byte) (rev backend.Revision, refused, err error) {
	if refused := valid(w); refused != nil {
		return "", refused, nil
	}
	key := []byte(w.Key)
	stored := t.records.Get(key)
	var current backend.Revision
	if stored != nil {
		if len(stored) < sealLen {
			return "", nil, fmt.Errorf("%w: record %q has %d bytes", ErrDamaged, key, len(stored))
		}
		current = revision(revisionOf(stored))
	}
	switch {
	case w.Delete && stored == nil:
		return "", backend.ErrNotFound, nil
	case current != w.Prev:
		return "", backend.ErrConflict, nil
	}
	t.before.remember(w.Key, stored)
	if stored != nil {
		t.head.records--
		t.head.sum = t.head.sum.minus(readSum(stored))
	}
	t.head.written++
	if w.Delete {
		return "", nil, t.records.Delete(key)
	}
	t.head.records++
	t.head.sum = t.head.sum.plus(seal(key, value, t.head.written))
	return revision(t.head.written), nil, t.records.Put(key, value)
}

func valid(w *backend.Write) error {
	if err := backend.ValidateKey(w.Key); err != nil {
		return err
	}
	return backend.ValidateValue(w.Value)
}

// rollback ends a transaction that is not committed.
func (t *transaction) rollback() {
	if t.tx != nil {
		_ = guarded(t.tx.Rollback) // it wrote nothing
	}
}
