// Package laws checks the guarantees of the engine about its runs, as functions of a plan, a run,
// its events and the records of members. It does no I/O: package environment reads its input.
package laws

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ErrViolated is matched by the error of [Violations] that are not empty.
var ErrViolated = errors.New("a law was violated")

// maxViolations is the maximum number of different violations that are kept.
const maxViolations = 20

// Violations collects the first violations, each once. The zero value is empty. Methods may be
// called concurrently.
type Violations struct {
	mu    sync.Mutex
	texts []string
}

// Add records a violation.
func (v *Violations) Add(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if text := fmt.Sprintf(format, args...); len(v.texts) < maxViolations && !slices.Contains(v.texts, text) {
		v.texts = append(v.texts, text)
	}
}

// Err returns an error that lists the violations and matches [ErrViolated], or nil if there are
// none.
func (v *Violations) Err() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.texts) == 0 {
		return nil
	}
	err := ErrViolated
	for _, text := range v.texts {
		err = fmt.Errorf("%w\n  %s", err, text)
	}
	return err
}
