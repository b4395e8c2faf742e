//go:build unix

package main

import (
	"os"
	"syscall"
)

// freeze stops a process, and thaw continues it.
func freeze(p *os.Process) { _ = p.Signal(syscall.SIGSTOP) }

func thaw(p *os.Process) { _ = p.Signal(syscall.SIGCONT) }

// dump ends a process, which prints its goroutines first.
func dump(p *os.Process) error { return p.Signal(syscall.SIGQUIT) }
