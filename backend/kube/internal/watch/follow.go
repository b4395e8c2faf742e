// Package watch is the list-and-watch of the backends on API servers: client-go's Reflector, whose failures are
// counted, and watches that subscribers share.
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

// Handler receives what there is and what changes. Its methods but Failed are called one after the other; an error
// of Listed or Changed is a failure.
type Handler interface {
	// Begin precedes a list, the first one and each that is needed since changes may have been missed; Listed
	// is called for each object of it, and Synced after the last.
	Begin()
	Listed(metav1.Object) error
	Synced()
	// Watching is called when the watch from that list on has begun.
	Watching()
	// Changed is called for every change after that.
	Changed(deleted bool, obj metav1.Object) error
	// Failed is called when changes are not seen, with the number of failures since the last one that was, and
	// reports whether to try again. It is called while other methods may be.
	Failed(failures int, err error) bool
}

// The pauses between attempts double from the first to the longest.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 2 * time.Second
)

// Patience is the number of failures, within about three seconds, after which a server is taken for one that stays
// away.
const Patience = 6

// settled is how long a watch lasts that counts as one that works though nothing changed.
const settled = time.Second

// ErrInterrupted is what a watch fails with that ends at once, before anything came. It is transient.
var ErrInterrupted = errors.New("the watch was interrupted")

var errNoVersion = errors.New("the list has no resourceVersion")

// Follow lists the objects that o selects and watches what changes, until ctx ends or h.Failed returns false. It
// returns the failure then.
//
// A watch that the server ends, or that breaks, continues where it was, and after a list where the server has
// forgotten that: this is client-go's Reflector. The list is a consistent one, never of the server's cache, and
// the Reflector is told only its version: it would keep all objects and write to the process's log when a list
// takes long. What it logs besides is discarded.
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
			_ = r.ListAndWatchWithContext(ctx) // what fails is counted where it does
		}
		s.pause(ctx)
	}
	return context.Cause(ctx)
}

// lister keeps the Reflector from asking for the objects as events: those are of no order, and not in pages.
type lister struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is read by client-go.
func (lister) IsWatchListSemanticsUnSupported() bool { return true }

// session is one call of Follow.
type session struct {
	Handler
	client  Client
	options metav1.ListOptions
	stop    context.CancelCauseFunc

	opened time.Time // when the last watch was begun
	listed bool      // and not watched from there
	pauses *backoff.Backoff

	mu       sync.Mutex
	failures int // since changes were seen
}

// pause precedes another attempt.
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

// works forgets the failures.
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
	if age := time.Since(s.opened); age < firstPause { // a server that ends every watch after one event
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
		if !w.any { // the Reflector lists after a watch without events that was short
			w.send(watch.Event{Type: watch.Bookmark, Object: here})
		}
	}()
	return w, nil
}

// forward sends events on until the watch ends, and reports whether that is no failure, or one after which to list.
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

// stream is a watch whose events are checked on their way.
type stream struct {
	from    watch.Interface
	events  chan watch.Event
	any     bool // there was one
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

// failureOf returns the error of an event that the Reflector does not take for a change, nil of others.
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

// failure is an error as an object, which an event has.
type failure struct{ error }

func (failure) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (f failure) DeepCopyObject() runtime.Object { return f }

// events are what the Reflector takes for its store.
type events struct{ *session }

func (e events) Add(obj any) error    { return e.changed(false, obj) }
func (e events) Update(obj any) error { return e.changed(false, obj) }
func (e events) Delete(obj any) error { return e.changed(true, obj) }

// Replace and Resync have nothing to do: the list was handed on when it was read.
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
