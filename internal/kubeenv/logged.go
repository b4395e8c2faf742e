package kubeenv

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Logged collects the warnings and errors that programs write into their logs, so that a test can
// fail on those that it does not expect. Give it to slog.NewTextHandler, or to klog as its output.
// The zero value is ready; its methods may be called concurrently.
type Logged struct {
	mu   sync.Mutex
	may  [][]string
	told []string
}

// NewLogged returns a Logged whose unexpected lines fail the test at its end. Call it before the
// programs start that write into it, so that they have ended by then.
func NewLogged(t testing.TB) *Logged {
	l := &Logged{}
	t.Cleanup(func() {
		for _, line := range l.Take() {
			t.Errorf("the program warns: %s", line)
		}
	})
	return l
}

// Logger returns a logger that writes into l.
func (l *Logged) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// Write adds the warnings and errors among the lines of p.
func (l *Logged) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		// client-go writes the warnings of an API server from warnings.go, if a hub has a process
		// of its own
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") || strings.Contains(line, " warnings.go:") {
			l.mu.Lock()
			l.told = append(l.told, strings.TrimSuffix(line, "\n"))
			l.mu.Unlock()
		}
	}
	return len(p), nil
}

// May allows the lines that contain all of the texts.
func (l *Logged) May(texts ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.may = append(l.may, texts)
}

// excused returns the warnings about a request that was cut by a busy machine, the end of a hub or
// a fault of a test, and about a race with another engine. A request that an API server refused is
// not excused.
func excused() [][]string {
	return [][]string{
		{"context deadline exceeded"},
		{"context canceled"},
		{"Client.Timeout"},
		{"request timed out"},
		{"TLS handshake timeout"},
		{"leader changed"},
		{"connection reset by peer"},
		{"connection refused"},
		{"EOF"},
		{"the network is down"},
		{"i/o timeout"},
		{"client connection lost"},
		{"etcdserver: "},
		{"currently unable to handle the request"},
		{"a fault of the test"},
		{"error=conflict"},
		{"Failed to update lease", "the object has been modified"}, // of the election, between two hubs
	}
}

// Take returns the lines that no call of May allows and that are not excused, and forgets all
// lines.
func (l *Logged) Take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	told := l.told
	l.told = nil
	return slices.DeleteFunc(told, func(line string) bool {
		return slices.ContainsFunc(slices.Concat(l.may, excused()), func(texts []string) bool {
			return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) })
		})
	})
}
