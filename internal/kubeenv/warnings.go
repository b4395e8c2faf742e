package kubeenv

import (
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Warnings collects the warnings of a server about the writes of clients, for example about
// fields that a definition lacks. It ignores warnings about reads, because a client that lists
// all kinds also lists deprecated ones. The zero value is ready; its methods may be called
// concurrently. Install it in a client with config.Wrap(warnings.Wrap).
type Warnings struct {
	mu   sync.Mutex
	said []string
}

// Wrap returns a transport that collects the warnings about writes.
func (w *Warnings) Wrap(next http.RoundTripper) http.RoundTripper {
	return tripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err == nil && r.Method != http.MethodGet {
			w.add(r, response.Header.Values("Warning"))
		}
		return response, err
	})
}

func (w *Warnings) add(r *http.Request, said []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, text := range said {
		w.said = append(w.said, r.Method+" "+r.URL.Path+": "+text)
	}
}

// HandleWarningHeader collects a warning to a client without a handler of its own, but not about a
// deprecated kind. It makes Warnings a handler for rest.SetDefaultWarningHandler.
func (w *Warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !strings.Contains(text, "deprecated") {
		w.said = append(w.said, text)
	}
}

// Take returns the warnings since the last call, each once, and forgets them.
func (w *Warnings) Take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	said := w.said
	w.said = nil
	slices.Sort(said)
	return slices.Compact(said)
}
