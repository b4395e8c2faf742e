package bolt

// Slow has f called in each commit before anything is written, and again once
// all is written and nobody has been told. It must be set before the first write.
func (s *Store) Slow(f func()) { s.slow = f }
