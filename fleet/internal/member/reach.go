package member

import "time"

// The waits of a worker between tries of a cluster that cannot be reached.
const (
	ReachFirst = 200 * time.Millisecond
	ReachMost  = 5 * time.Second
)
