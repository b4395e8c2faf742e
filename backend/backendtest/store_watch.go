package backendtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/backend"
)

// poll is the polling interval for a store that cannot watch.
const poll = 10 * time.Millisecond

// observer follows a watch and keeps the last change of each key.
type observer struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	last map[string]backend.Change
	err  error
}

// observe starts watching.
func observe(ctx context.Context, s backend.Store, prefix string) *observer {
	ctx, cancel := context.WithCancel(ctx)
	o := &observer{cancel: cancel, done: make(chan struct{}), last: map[string]backend.Change{}}
	go func() {
		defer close(o.done)
		for c, err := range backend.Watch(ctx, s, prefix, poll) {
			o.add(c, err)
		}
	}()
	return o
}

func (o *observer) add(c backend.Change, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.err = err
		return
	}
	o.last[c.Key] = c
}

// sees reports whether the last change of the key equals this one.
func (o *observer) sees(want backend.Change) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	got, ok := o.last[want.Key]
	return ok && got == want
}

func (o *observer) await(ctx context.Context, want backend.Change) error {
	what := "the change of " + want.Key + " to revision " + string(want.Revision)
	if want.Deleted {
		what = "the change that deletes " + want.Key
	}
	return eventually(ctx, what, func() bool { return o.sees(want) })
}

// stop ends the watch and returns its last error.
func (o *observer) stop() error {
	o.cancel()
	<-o.done
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// begin creates w/first and observes w/ until it sees that key, so that the watch has begun.
func begin(ctx context.Context, s backend.Store) (*observer, backend.Revision, error) {
	revision, err := made(ctx, s, "w/first", "")
	if err != nil {
		return nil, "", err
	}
	o := observe(ctx, s, "w/")
	if err := o.await(ctx, backend.Change{Key: "w/first", Revision: revision}); err != nil {
		_ = o.stop()
		return nil, "", err
	}
	return o, revision, nil
}

func watchExisting(ctx context.Context, s backend.Store) error {
	revisions, err := fill(ctx, s, "w/1", "w/2", "w/3", "wx", "v/1")
	if err != nil {
		return err
	}
	o := observe(ctx, s, "w/")
	for _, key := range []string{"w/1", "w/2", "w/3"} {
		if err := o.await(ctx, backend.Change{Key: key, Revision: revisions[key]}); err != nil {
			return errors.Join(err, o.stop())
		}
	}
	_ = o.stop()
	for key := range o.last {
		if !strings.HasPrefix(key, "w/") {
			return fmt.Errorf("watching w/ yields %s", key)
		}
	}
	return nil
}

func watchWrites(ctx context.Context, s backend.Store) error {
	o, revision, err := begin(ctx, s)
	if err != nil {
		return err
	}
	defer o.cancel()
	second, err := s.Put(ctx, "w/first", []byte("new"), revision)
	if err != nil {
		return err
	}
	if err := o.await(ctx, backend.Change{Key: "w/first", Revision: second}); err != nil {
		return err
	}
	later, err := made(ctx, s, "w/later", "")
	if err != nil {
		return err
	}
	return o.await(ctx, backend.Change{Key: "w/later", Revision: later})
}

func watchDeletes(ctx context.Context, s backend.Store) error {
	o, revision, err := begin(ctx, s)
	if err != nil {
		return err
	}
	defer o.cancel()
	if err := s.Delete(ctx, "w/first", revision); err != nil {
		return err
	}
	return o.await(ctx, backend.Change{Key: "w/first", Deleted: true})
}

// watchBurst writes faster than the watcher reads; the last write of each key must arrive.
func watchBurst(ctx context.Context, s backend.Store) error {
	o, _, err := begin(ctx, s)
	if err != nil {
		return err
	}
	defer o.cancel()
	last := make([]backend.Revision, 3)
	err = together(len(last), func(i int) error {
		var err error
		for n := range 100 {
			if last[i], err = s.Put(ctx, fmt.Sprintf("w/%d", i), []byte{byte(n)}, last[i]); err != nil {
				return err
			}
		}
		return nil
	})
	for i, revision := range last {
		if err == nil {
			err = o.await(ctx, backend.Change{Key: fmt.Sprintf("w/%d", i), Revision: revision})
		}
	}
	return err
}

func watchEnd(ctx context.Context, s backend.Store) error {
	o, _, err := begin(ctx, s)
	if err != nil {
		return err
	}
	if err := o.stop(); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("the watch ended with %q, want the error of its context", fmt.Sprint(err))
	}
	return nil
}

func watchBreak(ctx context.Context, s backend.Store) error {
	if _, err := fill(ctx, s, "w/1", "w/2"); err != nil {
		return err
	}
	for range 3 {
		for _, err := range backend.Watch(ctx, s, "w/", poll) {
			if err != nil {
				return err
			}
			break
		}
	}
	_, err := made(ctx, s, "w/3", "")
	return err
}
