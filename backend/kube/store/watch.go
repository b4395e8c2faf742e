package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/backend/kube/internal/api"
	"github.com/slipway-dev/slipway/backend/kube/internal/watch"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/slipway-dev/slipway/backend"
)

// Watch yields what changes under prefix. See [backend.Watcher]. It keeps the key
// and the revision of every record under prefix, no values. A watch that the server
// ends is taken up where it was; where the server has forgotten that, the records
// are listed again and compared with what was there, so that no deletion is lost.
// It ends with an error when the server cannot be reached for some seconds.
func (s *Store) Watch(ctx context.Context, prefix string) iter.Seq2[backend.Change, error] {
	return func(yield func(backend.Change, error) bool) {
		f := storeWatch{store: s, prefix: prefix, yield: yield, known: map[string]backend.Revision{}}
		err := f.run(ctx)
		switch {
		case errors.Is(err, errLeft):
		case ctx.Err() != nil:
			yield(backend.Change{}, ctx.Err())
		default:
			yield(backend.Change{}, api.ClassifyRecord("watch", prefix, err))
		}
	}
}

// How a watch ends that is no failure.
var (
	// errLeft: the consumer wants no more.
	errLeft = errors.New("the consumer has left")
	// errExpired: the server no longer has what the watch was to go on from.
	errExpired = errors.New("the watch has expired")
	// errClosed: the server ended the watch, as it does from time to time.
	errClosed = errors.New("the server ends every watch at once")
)

// storeWatch is one watch.
type storeWatch struct {
	store  *Store
	prefix string
	yield  func(backend.Change, error) bool
	known  map[string]backend.Revision
}

// run goes on until it fails.
func (f *storeWatch) run(ctx context.Context) error {
	for {
		at, err := f.list(ctx)
		if err != nil {
			return err
		}
		if err := f.follow(ctx, at); !errors.Is(err, errExpired) {
			return err
		}
	}
}

// list yields how the records differ from those that are known, and returns the
// version of all of them that is followed from there. The pages of a list that was
// too slow are of different moments; that of the first is before all others.
func (f *storeWatch) list(ctx context.Context) (at string, err error) {
	pages := pager[metav1.PartialObjectMetadata]{
		fetch: func(ctx context.Context, o metav1.ListOptions) ([]metav1.PartialObjectMetadata, metav1.ListMeta, error) {
			items, list, err := f.store.api.listMeta(ctx, o)
			if at == "" && err == nil {
				at = list.ResourceVersion
			}
			return items, list, err
		},
		name:     func(m *metav1.PartialObjectMetadata) string { return m.Name },
		selector: selectorOf(f.prefix),
		limit:    mostPage,
	}
	missing := maps.Clone(f.known)
	for more := true; more; {
		var page []metav1.PartialObjectMetadata
		if page, more, err = f.page(ctx, &pages); err != nil {
			return "", err
		}
		for i := range page {
			key, err := f.written(&page[i].ObjectMeta)
			if err != nil {
				return "", err
			}
			delete(missing, key)
		}
	}
	for key := range missing {
		if err := f.gone(key); err != nil {
			return "", err
		}
	}
	return at, nil
}

func (f *storeWatch) page(ctx context.Context, pages *pager[metav1.PartialObjectMetadata]) ([]metav1.PartialObjectMetadata, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, f.store.timeout)
	defer cancel()
	return pages.next(ctx)
}

// A watch that fails before it has told anything is opened again after a pause
// that doubles, mostFailures times in a row: about three seconds.
const (
	firstPause   = 50 * time.Millisecond
	mostFailures = 7
)

// follow yields what is written after the version at, over as many watches as that
// takes.
func (f *storeWatch) follow(ctx context.Context, at string) error {
	for failures, pause := 0, firstPause; ; {
		told, err := f.stream(ctx, &at)
		if errors.Is(err, errLeft) || errors.Is(err, errExpired) || errors.Is(err, backend.ErrPermanent) || ctx.Err() != nil {
			return err
		}
		if told {
			failures, pause = 0, firstPause
			continue
		}
		if failures++; failures == mostFailures {
			return fmt.Errorf("the watch failed %d times in a row: %w", failures, err)
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		pause *= 2
	}
}

// stream yields what one watch tells and moves at on. told says that there was
// something.
func (f *storeWatch) stream(ctx context.Context, at *string) (told bool, err error) {
	w, err := watch.Begun(ctx, f.store.timeout, func(ctx context.Context) (apiwatch.Interface, error) {
		return f.store.api.watch(ctx, selectorOf(f.prefix), *at)
	})
	if expired(err) {
		return false, errExpired
	}
	if err != nil {
		return false, permanently(err)
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return told, ctx.Err()
		case event, ok := <-w.ResultChan():
			if !ok {
				return told, errClosed
			}
			if err := f.event(event, at); err != nil {
				return told, err
			}
			told = true
		}
	}
}

// permanently makes an error that will not get better ErrPermanent.
func permanently(err error) error {
	if api.KindOf("watch", err) == nil {
		return err
	}
	return api.Permanent(err)
}

// event yields what an event tells and moves at to its version.
func (f *storeWatch) event(e apiwatch.Event, at *string) error {
	if e.Type == apiwatch.Error {
		err := apierrors.FromObject(e.Object)
		if expired(err) {
			return errExpired
		}
		return err
	}
	m, ok := e.Object.(*metav1.PartialObjectMetadata)
	if !ok {
		return fmt.Errorf("the server sends a %T as an event", e.Object)
	}
	var err error
	switch e.Type {
	case apiwatch.Added, apiwatch.Modified:
		_, err = f.written(&m.ObjectMeta)
	case apiwatch.Deleted:
		var key string
		if key, err = keyOf(&m.ObjectMeta); err == nil {
			err = f.gone(key)
		}
	default: // a bookmark moves at, and nothing else
	}
	*at = m.ResourceVersion
	return err
}

// written yields a record, unless its revision is known, and returns its key.
func (f *storeWatch) written(m *metav1.ObjectMeta) (string, error) {
	key, err := keyOf(m)
	rev := revisionOf(m)
	if err != nil || f.known[key] == rev || !strings.HasPrefix(key, f.prefix) {
		return key, err
	}
	f.known[key] = rev
	return key, f.tell(backend.Change{Key: key, Revision: rev})
}

// gone yields the deletion of a record, unless it is not known.
func (f *storeWatch) gone(key string) error {
	if _, ok := f.known[key]; !ok {
		return nil
	}
	delete(f.known, key)
	return f.tell(backend.Change{Key: key, Deleted: true})
}

func (f *storeWatch) tell(c backend.Change) error {
	if !f.yield(c, nil) {
		return errLeft
	}
	return nil
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
