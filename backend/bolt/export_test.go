package bolt

import (
	"errors"
	"time"
)

// Slow has f called in each commit before anything is written, and again once
// all is written and no caller has been told. It must be set before the first write.
func (s *Store) Slow(f func()) { s.slow = f }

// CreateWithoutLinks makes the file at path, if there is none, as on a file
// system that has no hard links.
func CreateWithoutLinks(path string) error {
	return create(path, time.Minute, func(string, string) error { return errors.ErrUnsupported })
}
