package bolt

// Slow has f called during each commit, before anything is written. It must be
// set before the first write.
func (s *Store) Slow(f func()) { s.slow = f }
