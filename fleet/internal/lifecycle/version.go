package lifecycle

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
)

// Version identifies the runs of the placement, which of them have ended, and the bindings. As long
// as the version is the same, every cluster has exactly the content that follows from the bindings
// and the plans of the unfinished runs.
func (s *State) Version() string {
	h := sha256.New()
	write(h, s.UID, fmt.Sprint(s.Bindings), fmt.Sprint(s.Deleting != nil))
	for i := range s.Runs {
		r := &s.Runs[i]
		write(h, r.UID, string(r.Ended), fmt.Sprint(r.Restart))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// CheckVersion returns an error that matches ErrOutdated if the placement has another version. It
// accepts the empty version.
func (s *State) CheckVersion(version string) error {
	if version == "" || version == s.Version() {
		return nil
	}
	return ErrOutdated
}

// write hashes each field with its length, so that two different lists never hash the same text.
func write(h hash.Hash, fields ...string) {
	for _, f := range fields {
		_, _ = fmt.Fprintf(h, "%d:%s,", len(f), f)
	}
}
