//go:build unix

package main

import (
	"os"
	"syscall"
)

// freeze stops a process, thaw lets it go on.
func freeze(p *os.Process) { _ = p.Signal(syscall.SIGSTOP) }

func thaw(p *os.Process) { _ = p.Signal(syscall.SIGCONT) }

// dump ends a process, which tells first what its goroutines are at.
func dump(p *os.Process) error { return p.Signal(syscall.SIGQUIT) }
