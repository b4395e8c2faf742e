package runner

import (
	"slices"
	"sync"
)

// mail names the unread commands of a run. A watch names the records of new commands,
// so that the driver need not list all of them: a Kubernetes API server lets a list wait for up to
// 100 ms, but not the read of one object. It may be used concurrently.
type mail struct {
	mu sync.Mutex
	// keys are the keys of records that are unread, all reports whether there may be more.
	keys []string
	all  bool
}

// add reports that the record of a key is unread. If there are many, it does not remember which.
func (m *mail) add(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.all && !slices.Contains(m.keys, key) {
		m.keys = append(m.keys, key)
	}
	if len(m.keys) > commandsAtOnce {
		m.keys, m.all = nil, true
	}
}

// addAll reports that any commands may be unread.
func (m *mail) addAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keys, m.all = nil, true
}

// isEmpty reports whether no command is known to be unread.
func (m *mail) isEmpty() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.all && len(m.keys) == 0
}

// take returns the unread keys, and forgets them. keys is nil if all is true.
func (m *mail) take() (keys []string, all bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	keys, all = m.keys, m.all
	m.keys, m.all = nil, false
	return keys, all
}
