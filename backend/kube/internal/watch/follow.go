// Package watch lists and watches for the backends on API servers: it is client-go's Reflector
// with counted failures, and watches that subscribers share.
package watch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/slipway-dev/slipway/backend/kube/internal/api"
	"github.com/slipway-dev/slipway/internal/backoff"
)

// Handler receives the existing objects and the changes. Its methods except Failed are called one
// after the other; an error of Listed or Changed is a failure.
type Handler interface {
	// Begin precedes each list: the first, and every list after changes may have been missed. Listed
	// is called for each object of it, and Synced after the last.
	Begin()
	Listed(metav1.Object) error
	Synced()
	// Watching is called when the watch after that list has begun.
	Watching()
	// Changed is called for every change after that.
	Changed(deleted bool, obj metav1.Object) error
	// Failed is called when the watch fails, with the number of failures since the last success, and
	// reports whether to try again. It may be called concurrently with the other methods.
	Failed(failures int, err error) bool
}

// The pauses between attempts double from the first to the longest.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 2 * time.Second
)

// Patience is the number of failures, within about three seconds, until a server counts as
// unreachable.
const Patience = 6

// settled is the duration until a watch without changes counts as working.
const settled = time.Second

// ErrInterrupted is the error of a watch that ends at once, before any event. It is transient.
var ErrInterrupted = errors.New("the watch was interrupted")

var errNoVersion = errors.New("the list has no resourceVersion")

// Follow lists the objects that o selects and watches their changes, until ctx ends or h.Failed
// returns false. It returns the failure then.
//
// It uses client-go's Reflector: a watch that ends or breaks resumes at the same version, or
// after a new list if the server no longer has that version. The list is consistent and never
// comes from the server's cache. The Reflector gets only the list's version, because it would
// keep all objects and log a slow list to the process's log. Its other logs are discarded.
func Follow(ctx context.Context, c Client, o metav1.ListOptions, h Handler) error {
	silent := logr.Discard()
	ctx, stop := context.WithCancelCause(logr.NewContext(ctx, silent))
	defer stop(nil)
	s := &session{Handler: h, client: c, options: o, stop: stop, pauses: backoff.New(firstPause, longestPause).Spread()}
	version := ""
	listed := func(context.Context, metav1.ListOptions) (runtime.Object, error) { return listOf(version), nil }
	r := cache.NewReflectorWithOptions(
		lister{&cache.ListWatch{ListWithContextFunc: listed, WatchFuncWithContext: s.watch}}, nil, events{s},
		cache.ReflectorOptions{Name: "slipway", Logger: &silent})
	for ctx.Err() == nil {
		var err error
		if version, err = s.list(ctx); err == nil {
			_ = r.ListAndWatchWithContext(ctx) // failures are already counted
		}
		s.pause(ctx)
	}
	return context.Cause(ctx)
}

// lister keeps the Reflector from requesting the objects as events, because those are unordered
// and not paged.
type lister struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is called by client-go.
func (lister) IsWatchListSemanticsUnSupported() bool { return true }

// session is one call of Follow.
type session struct {
	Handler
	client  Client
	options metav1.ListOptions
	stop    context.CancelCauseFunc

	opened time.Time // start of the last watch
	listed bool      // and not yet watched
	pauses *backoff.Backoff

	mu       sync.Mutex
	failures int // since the last success
}

// pause waits before another attempt.
func (s *session) pause(ctx context.Context) {
	s.mu.Lock()
	if s.failures <= 1 {
		s.pauses.Reset()
	}
	d := s.pauses.Next()
	s.mu.Unlock()
	backoff.Sleep(ctx, d)
}

// fail counts a failure, and returns it.
func (s *session) fail(err error) error {
	s.mu.Lock()
	s.failures++
	n := s.failures
	s.mu.Unlock()
	if !s.Failed(n, err) {
		s.stop(err)
	}
	return err
}

// works resets the count of failures.
func (s *session) works() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = 0
}

func (s *session) list(ctx context.Context) (string, error) {
	version, err := s.client.List(ctx, s.options, s.Begin, s.Listed)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err == nil && version == "":
		err = errNoVersion
	}
	if err != nil {
		return "", s.fail(err)
	}
	s.Synced()
	s.listed = true
	return version, nil
}

func (s *session) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if age := time.Since(s.opened); age < firstPause { // a server may end every watch after one event
		backoff.Sleep(ctx, firstPause-age)
	}
	s.opened = time.Now()
	o.LabelSelector, o.FieldSelector = s.options.LabelSelector, s.options.FieldSelector
	from, end, err := s.client.open(ctx, o)
	for ; err != nil; from, end, err = s.client.open(ctx, o) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if _ = s.fail(err); api.IsExpired(err) {
			return nil, err
		}
		s.pause(ctx)
	}
	if s.listed {
		s.listed = false
		s.Watching()
	}
	w := &stream{from: from, events: make(chan watch.Event), stopped: make(chan struct{})}
	w.stop = sync.OnceFunc(func() { close(w.stopped); end() })
	go func() {
		defer close(w.events)
		if s.forward(ctx, w) {
			return
		}
		s.pause(ctx)
		here := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: o.ResourceVersion}}
		if !w.any { // the Reflector lists after a short watch without events
			w.send(watch.Event{Type: watch.Bookmark, Object: here})
		}
	}()
	return w, nil
}

// forward passes events on until the watch ends. It returns true if the end is no failure, or a
// failure after which to list.
func (s *session) forward(ctx context.Context, w *stream) bool {
	began := time.Now()
	lasts := time.AfterFunc(settled, s.works)
	defer lasts.Stop()
	for {
		select {
		case <-w.stopped:
			return true
		case e, ok := <-w.from.ResultChan():
			err := ErrInterrupted
			if ok {
				err = failureOf(e)
			} else if w.any || time.Since(began) > settled {
				return true
			}
			switch {
			case ctx.Err() != nil:
				return true
			case err == nil:
				s.works()
				w.any = true
			case !api.IsExpired(s.fail(err)):
				return false
			}
			if !w.send(e) {
				return true
			}
		}
	}
}

// stream is a watch that checks events as it passes them on.
type stream struct {
	from    watch.Interface
	events  chan watch.Event
	any     bool // there was an event
	stopped chan struct{}
	stop    func()
}

func (w *stream) ResultChan() <-chan watch.Event { return w.events }
func (w *stream) Stop()                          { w.stop() }

func (w *stream) send(e watch.Event) bool {
	select {
	case w.events <- e:
		return true
	case <-w.stopped:
		return false
	}
}

// failureOf returns the error of an event that the Reflector does not treat as a change, nil for
// other events.
func failureOf(e watch.Event) error {
	obj, isObject := e.Object.(metav1.Object)
	f, isFailure := e.Object.(failure)
	switch e.Type {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
		if isObject && obj.GetResourceVersion() != "" {
			return nil
		}
	case watch.Error:
		if isFailure {
			return f.error
		}
		return apierrors.FromObject(e.Object)
	}
	return errNoObject
}

// Failed returns the event of a watch that fails with err.
func Failed(err error) watch.Event { return watch.Event{Type: watch.Error, Object: failure{err}} }

// failure is an error in the form of an object, which an event needs.
type failure struct{ error }

func (failure) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (f failure) DeepCopyObject() runtime.Object { return f }

// events is the Reflector's store.
type events struct{ *session }

func (e events) Add(obj any) error    { return e.changed(false, obj) }
func (e events) Update(obj any) error { return e.changed(false, obj) }
func (e events) Delete(obj any) error { return e.changed(true, obj) }

// Replace and Resync do nothing: the list was passed on when it was read.
func (events) Replace([]any, string) error { return nil }
func (events) Resync() error               { return nil }

func (e events) changed(deleted bool, obj any) error {
	o, ok := obj.(metav1.Object)
	if !ok {
		return nil
	}
	if err := e.Changed(deleted, o); err != nil {
		_ = e.fail(err)
	}
	return nil
}
