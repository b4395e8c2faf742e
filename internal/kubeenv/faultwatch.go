package kubeenv

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// GoneEvent answers a watch as a server does that began it and then finds that the resource
// version is too old: 200, one event ERROR with the status 410, and the end.
func GoneEvent() Fault {
	return func(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
		refuse(r)
		event := map[string]any{"type": watch.Error, "object": status(http.StatusGone, metav1.StatusReasonExpired)}
		body, err := json.Marshal(event)
		return respond(r, http.StatusOK, append(body, '\n')), err
	}
}

// CutAfter passes the given number of events of a watch and resets the connection in the middle of
// the next event, after the client has read a part of it. It recognizes events in JSON only.
func CutAfter(events int) Fault {
	return func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		response.Body = &limited{ReadCloser: response.Body, left: events}
		return response, nil
	}
}

// limited is the body of a watch that breaks in an event.
type limited struct {
	io.ReadCloser
	left   int // how many whole events still pass
	broken bool
}

// Read passes the remaining complete events on, and then half of the event at which the stream
// breaks.
func (b *limited) Read(p []byte) (int, error) {
	if b.broken {
		return 0, reset()
	}
	n, err := b.ReadCloser.Read(p)
	passed := 0
	for line := range bytes.Lines(p[:n]) {
		if b.left == 0 {
			b.broken = true
			return passed + len(line)/2, nil
		}
		passed += len(line)
		if line[len(line)-1] == '\n' {
			b.left--
		}
	}
	return n, err
}

// watch passes a watch on, so that CutWatches can end it.
func (f *Faults) watch(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	response, err := next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	body := &cuttable{ReadCloser: response.Body, cancel: cancel}
	body.closed = func() { f.forget(body) }
	f.remember(body)
	response.Body = body
	return response, nil
}

func (f *Faults) remember(b *cuttable) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watches == nil {
		f.watches = map[*cuttable]struct{}{}
	}
	f.watches[b] = struct{}{}
}

func (f *Faults) forget(b *cuttable) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.watches, b)
}

// CutWatches resets the connections of all watches that are open, and returns how many those were.
func (f *Faults) CutWatches() int {
	f.mu.Lock()
	open := slices.Collect(maps.Keys(f.watches))
	clear(f.watches)
	f.mu.Unlock()
	for _, b := range open {
		b.cut()
	}
	return len(open)
}

// cuttable is the body of a watch that another goroutine can break.
type cuttable struct {
	io.ReadCloser
	cancel context.CancelFunc
	closed func()

	mu     sync.Mutex
	broken bool
}

func (b *cuttable) cut() {
	b.mu.Lock()
	b.broken = true
	b.mu.Unlock()
	b.cancel()
}

// Read returns a reset error after the cut of the watch, even if data was read.
func (b *cuttable) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken {
		return 0, reset()
	}
	return n, err
}

func (b *cuttable) Close() error {
	b.closed()
	defer b.cancel()
	return b.ReadCloser.Close()
}
