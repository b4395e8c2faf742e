package store

import (
	"context"
	"iter"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/internal/api"
	"github.com/slipway-dev/slipway/backend/kube/internal/watch"
)

// Watch yields the changes under prefix. See [backend.Watcher]. It keeps the key and the revision
// of every record under prefix, no values. If the server ends a watch, the watch resumes at the
// same version; if the server no longer has that version, the records are listed again and
// compared, so that no deletion is lost. Watch ends with an error if the server cannot be reached
// for some seconds.
func (s *Store) Watch(ctx context.Context, prefix string) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		inner, stop := context.WithCancel(ctx)
		defer stop()
		f := &follower{ctx: inner, prefix: prefix, known: map[string]backend.Revision{}, changes: make(chan backend.Change)}
		ended := make(chan error, 1)
		go func() {
			ended <- watch.Follow(inner, s.metadata(), metav1.ListOptions{LabelSelector: selectorOf(prefix)}, f)
		}()
		for {
			select {
			case c := <-f.changes:
				if !yield(c, nil) {
					return
				}
			case err := <-ended:
				if ctx.Err() != nil {
					err = ctx.Err()
				}
				yield(backend.Change{}, api.ClassifyRecord("watch", prefix, err))
				return
			}
		}
	}
}

// metadata returns a client for the metadata of the Secrets.
func (s *Store) metadata() watch.Client {
	c := watch.Of(s.api.listMeta, s.api.watch)
	c.Timeout = s.timeout
	return c
}

// follower is the [watch.Handler] of one watch. It compares each list with the known records, so
// that no deletion is lost.
type follower struct {
	ctx     context.Context //nolint:containedctx // lives during one call of Watch
	prefix  string
	changes chan backend.Change
	known   map[string]backend.Revision
	// missing are the known records that the list has not had so far.
	missing map[string]backend.Revision
}

func (f *follower) Begin() { f.missing = maps.Clone(f.known) }

func (f *follower) Listed(obj metav1.Object) error {
	key, err := f.written(obj)
	delete(f.missing, key)
	return err
}

func (f *follower) Synced() {
	for key := range f.missing {
		f.gone(key)
	}
}

// Watching does nothing, because the list was complete.
func (f *follower) Watching() {}

func (f *follower) Changed(deleted bool, obj metav1.Object) error {
	if !deleted {
		_, err := f.written(obj)
		return err
	}
	key, err := keyOf(obj)
	if err == nil {
		f.gone(key)
	}
	return err
}

// Failed ends the watch if a retry would fail the same way, and after some seconds.
func (f *follower) Failed(failures int, err error) bool {
	return failures < watch.Patience && !api.IsLasting(err)
}

// written sends a record, unless its revision is known, and returns its key.
func (f *follower) written(obj metav1.Object) (string, error) {
	key, err := keyOf(obj)
	rev := revisionOf(obj)
	if err != nil || f.known[key] == rev || !strings.HasPrefix(key, f.prefix) {
		return key, err
	}
	f.known[key] = rev
	f.send(backend.Change{Key: key, Revision: rev})
	return key, nil
}

// gone sends the deletion of a record, unless it is not known.
func (f *follower) gone(key string) {
	if _, ok := f.known[key]; ok {
		delete(f.known, key)
		f.send(backend.Change{Key: key, Deleted: true})
	}
}

func (f *follower) send(c backend.Change) {
	select {
	case f.changes <- c:
	case <-f.ctx.Done():
	}
}
