package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// Record is a line of a stream. The last record of a complete stream has End or Error; a stream
// without such a record was cut.
type Record[T any] struct {
	Item *T `json:"item,omitempty"`
	// Cursor is set for events: a stream with this value of the parameter cursor continues after the
	// event.
	Cursor string `json:"cursor,omitempty"`
	// Problem is an error that does not end the stream.
	Problem *Error `json:"problem,omitempty"`
	Error   *Error `json:"error,omitempty"`
	End     bool   `json:"end,omitempty"`
}

// ErrCut is matched by the error that ends an incomplete stream, because the connection was lost or
// the server ended.
var ErrCut = errors.New("the stream was cut")

const (
	// quiet is the longest silence of a stream: then it writes an empty line, so that both sides
	// notice a lost peer.
	quiet = 10 * time.Second
	// writing is the time limit for the client to read a line.
	writing = 30 * time.Second
)

// stream writes records as soon as they are available. The answer begins with the first record, or
// with an empty line after the time quiet.
type stream struct {
	c     *call
	mu    sync.Mutex
	last  time.Time
	wrote bool
}

// newStream begins a stream. The caller must call end.
func newStream(c *call) (s *stream, end func()) {
	s = &stream{c: c, last: time.Now()}
	c.w.Header().Set("Content-Type", "application/x-ndjson")
	c.w.Header().Set("X-Accel-Buffering", "no")
	var alive sync.WaitGroup
	stop := make(chan struct{})
	alive.Go(func() {
		tick := time.NewTicker(quiet)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				_ = s.write([]byte("\n"), quiet)
			}
		}
	})
	return s, func() { close(stop); alive.Wait() }
}

// write writes a line. It writes nothing if another line was written less than unless ago.
func (s *stream) write(line []byte, unless time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if unless > 0 && time.Since(s.last) < unless {
		return nil
	}
	s.last, s.wrote = time.Now(), true
	response := http.NewResponseController(s.c.w)
	_ = response.SetWriteDeadline(s.last.Add(writing))
	if _, err := s.c.w.Write(line); err != nil {
		return err
	}
	return response.Flush()
}

// begun reports whether something was written.
func (s *stream) begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wrote
}

// send writes a record to a stream.
func send[T any](s *stream, r Record[T]) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return s.write(append(line, '\n'), 0)
}

// streamed serves a route that has a body and answers with a stream. The first error ends the
// stream; an error before the first item is an ordinary answer.
func streamed[B, T any](do func(c *call, body B) (iter.Seq2[T, error], error)) func(*call) error {
	return func(c *call) error {
		var body B
		if err := c.read(&body); err != nil {
			return err
		}
		items, err := do(c, body)
		if err != nil {
			return err
		}
		s, end := newStream(c)
		defer end()
		for item, err := range items {
			if err != nil && !s.begun() {
				return err
			}
			r := Record[T]{Item: &item}
			if err != nil {
				r = Record[T]{Error: errorOf(err)}
			}
			if c.ctx().Err() != nil {
				return nil
			}
			if sent := send(s, r); sent != nil || err != nil {
				return nil // the client is gone, or has the error
			}
		}
		_ = send(s, Record[T]{End: true})
		return nil
	}
}

// events answers with the history of a run or a placement. With the parameter follow it answers
// with a stream of the events.
func events(history func(c *call, after int64) (fleet.History, error), follow func(c *call, after string) (*fleet.Follower, error)) func(*call) error {
	return func(c *call) error {
		following, err := c.flag("follow")
		if err != nil {
			return err
		}
		if !following {
			page, err := eventsPage(c, history)
			if err != nil {
				return err
			}
			return answer(c, page)
		}
		f, err := follow(c, c.URL.Query().Get("cursor"))
		if err != nil {
			return badRequest(err)
		}
		return followed(c, f)
	}
}

func followed(c *call, f *fleet.Follower) error {
	s, end := newStream(c)
	defer end()
	permitted := time.Now()
	for ev, err := range f.Events(c.ctx()) {
		if time.Since(permitted) > quiet {
			if err := c.may(Get, c.scope); err != nil {
				_ = send(s, Record[stages.Event]{Error: errorOf(err)})
				return nil
			}
			permitted = time.Now()
		}
		r := Record[stages.Event]{Item: &ev, Cursor: f.Cursor()}
		if err != nil {
			r = Record[stages.Event]{Problem: errorOf(err)}
		}
		if c.ctx().Err() != nil {
			return nil // the client is gone
		}
		if err := send(s, r); err != nil {
			return nil // the client is gone
		}
	}
	_ = send(s, Record[stages.Event]{End: true})
	return nil
}

// eventsPage reads the events from the number after on, at most limit of them.
func eventsPage(c *call, read func(c *call, after int64) (fleet.History, error)) (EventsPage, error) {
	after, err := c.number("after", 0, 1<<53)
	if err != nil {
		return EventsPage{}, err
	}
	limit, err := c.limit()
	if err != nil {
		return EventsPage{}, err
	}
	h, err := read(c, after)
	page := EventsPage{History: h}
	if missed, is := errors.AsType[*fleet.MissedError](err); is {
		page.Missed, err = missed.Events, nil
	}
	if len(h.Events) > limit {
		page.Events, page.Next, page.More = h.Events[:limit], h.After+int64(limit), true
	}
	if page.Events == nil {
		page.Events = []stages.Event{}
	}
	return page, err
}

// records yields the records of a stream up to its end.
func records[T any](body io.Reader) iter.Seq2[Record[T], error] {
	return func(yield func(Record[T], error) bool) {
		d := json.NewDecoder(body)
		for {
			var r Record[T]
			err := d.Decode(&r)
			switch {
			case err != nil:
				yield(r, fmt.Errorf("%w: %w", ErrCut, err))
				return
			case r.Error != nil:
				yield(r, r.Error)
				return
			case r.End || !yield(r, nil):
				return
			}
		}
	}
}
