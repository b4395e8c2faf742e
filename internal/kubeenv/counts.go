package kubeenv

import (
	"io"
	"maps"
	"net/http"
	"sync"
)

// Counts counts the requests of clients. The zero value is ready; its methods may be called
// concurrently. Install it in a client with config.Wrap(counts.Wrap). Each retry of client-go
// counts; a request that client-go delays does not count until it is sent.
type Counts struct {
	mu    sync.Mutex
	calls map[Call]int
	open  int
}

// Wrap returns a transport that counts its requests.
func (c *Counts) Wrap(next http.RoundTripper) http.RoundTripper {
	return tripper(func(r *http.Request) (*http.Response, error) {
		call := CallOf(r)
		c.count(call)
		response, err := next.RoundTrip(r)
		if err == nil && call.Verb == "watch" {
			c.opened(response)
		}
		return response, err
	})
}

func (c *Counts) count(call Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = map[Call]int{}
	}
	c.calls[call]++
}

// opened counts a watch as open until its body is closed.
func (c *Counts) opened(response *http.Response) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open++
	response.Body = &closing{ReadCloser: response.Body, closed: func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open--
	}}
}

// Calls returns the number of requests for each call since the start or the last Reset, including
// watches.
func (c *Counts) Calls() map[Call]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.calls)
}

// Verb returns how many requests of a verb there were.
func (c *Counts) Verb(verb string) int {
	return c.sum(func(call Call) bool { return call.Verb == verb })
}

// Requests returns how many requests there were besides watches.
func (c *Counts) Requests() int {
	return c.sum(func(call Call) bool { return call.Verb != "watch" })
}

// Watches returns how many watches were asked for.
func (c *Counts) Watches() int { return c.Verb("watch") }

// OpenWatches returns how many watches were answered and are not closed by the client. Reset does
// not change it.
func (c *Counts) OpenWatches() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

// Reset begins to count from zero.
func (c *Counts) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.calls)
}

func (c *Counts) sum(of func(Call) bool) int {
	sum := 0
	for call, n := range c.Calls() {
		if of(call) {
			sum += n
		}
	}
	return sum
}

// tripper is a function as a transport.
type tripper func(*http.Request) (*http.Response, error)

func (t tripper) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// closing is a response body that calls back once when it is closed.
type closing struct {
	io.ReadCloser
	once   sync.Once
	closed func()
}

func (b *closing) Close() error {
	b.once.Do(b.closed)
	return b.ReadCloser.Close()
}
