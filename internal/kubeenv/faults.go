package kubeenv

import (
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Fault handles a request in place of next: it may pass the request on to next or answer it. It
// closes the body of a request that it does not pass on.
type Fault func(next http.RoundTripper, r *http.Request) (*http.Response, error)

// Rule says which requests suffer a fault.
type Rule struct {
	// Verb is as in Call; empty is any.
	Verb string
	// Path is a part of the path of the URL; empty is any.
	Path string
	// First is which of the requests that match is the first to suffer, counted from 1 since the rule
	// was added. 0 is 1.
	First int
	// Every makes each nth one from the first on suffer. 0 is 1.
	Every int
	// Times is the number of requests that the rule strikes. 0 means one, and a negative number
	// means all.
	Times int
	// Fault is the fault of matching requests.
	Fault Fault
}

// Faults makes requests of clients fail by rules. The zero value has no rules; its methods may be
// called concurrently. Install it in a client with config.Wrap(faults.Wrap). It is below the
// retries of client-go, so client-go retries a GET after a reset connection, and an answer with
// Retry-After.
type Faults struct {
	mu      sync.Mutex
	rules   []*counted
	watches map[*cuttable]struct{}
}

// counted is a rule with its counts.
type counted struct {
	Rule
	matched, struck int
}

// Add adds a rule. The returned function returns the number of requests that the rule has struck
// so far, so that a test can verify that faults occurred. If several rules strike the same
// request, the first added rule handles it first; if it passes the request on, the next rule
// handles it.
func (f *Faults) Add(r Rule) (struck func() int) {
	r.First, r.Every = max(r.First, 1), max(r.Every, 1)
	if r.Times == 0 {
		r.Times = 1
	}
	c := &counted{Rule: r}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, c)
	return func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return c.struck
	}
}

// Heal removes all rules. Faults that already run, such as a delay, continue.
func (f *Faults) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

// Wrap returns a transport that applies the rules to its requests.
func (f *Faults) Wrap(next http.RoundTripper) http.RoundTripper {
	return tripper(func(r *http.Request) (*http.Response, error) {
		call := CallOf(r)
		way := next
		if call.Verb == "watch" {
			way = tripper(func(r *http.Request) (*http.Response, error) { return f.watch(next, r) })
		}
		for _, fault := range slices.Backward(f.due(call, r.URL.Path)) {
			way = fault.before(way)
		}
		return way.RoundTrip(r)
	})
}

// before returns a transport that applies the fault and then uses next.
func (fault Fault) before(next http.RoundTripper) http.RoundTripper {
	return tripper(func(r *http.Request) (*http.Response, error) { return fault(next, r) })
}

// due counts a request for every matching rule and returns the faults of the request.
func (f *Faults) due(call Call, path string) []Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	var faults []Fault
	for _, c := range f.rules {
		if c.matches(call, path) && c.strikes() {
			faults = append(faults, c.Fault)
		}
	}
	return faults
}

func (c *counted) matches(call Call, path string) bool {
	return (c.Verb == "" || c.Verb == call.Verb) && strings.Contains(path, c.Path)
}

func (c *counted) strikes() bool {
	c.matched++
	since := c.matched - c.First
	if since < 0 || since%c.Every != 0 || c.Times > 0 && c.struck >= c.Times {
		return false
	}
	c.struck++
	return true
}
