//go:build !unix

package watch

import "os"

// notifyStop does nothing on systems without suspension.
func notifyStop(chan<- os.Signal) {}

func suspend() {}
