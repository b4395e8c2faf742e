//go:build unix

package watch

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// notifyStop has the signals sent that ask to suspend the program. While they are caught they stop nothing, and once
// they were caught they never do again: [suspend] takes another one.
func notifyStop(signals chan<- os.Signal) { signal.Notify(signals, syscall.SIGTSTP) }

// suspend stops the job that the program is, until it is resumed. A program that no shell controls is not stopped:
// nothing would resume it.
func suspend() {
	if sid, err := unix.Getsid(0); err != nil || sid == unix.Getpgrp() {
		return
	}
	resumed := make(chan os.Signal, 1)
	signal.Notify(resumed, syscall.SIGCONT)
	defer signal.Stop(resumed)
	if syscall.Kill(0, syscall.SIGSTOP) == nil {
		<-resumed
	}
}
