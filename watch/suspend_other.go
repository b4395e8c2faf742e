//go:build !unix

package watch

import "os"

// notifyStop does nothing where programs are not suspended.
func notifyStop(chan<- os.Signal) {}

func suspend() {}
