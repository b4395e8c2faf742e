//go:build unix

package watch

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// notifyStop sends the signals that ask to suspend the program to signals. A caught signal stops
// nothing, and can never stop the program again, so [suspend] uses another one.
func notifyStop(signals chan<- os.Signal) { signal.Notify(signals, syscall.SIGTSTP) }

// suspend stops the program's job until it is resumed. It does nothing without a controlling
// shell, because nothing would resume the program.
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
