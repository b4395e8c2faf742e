//go:build unix

package main

import (
	"os"
	"syscall"
)

// freeze stops a process, thaw lets it go on.
func freeze(p *os.Process) { _ = p.Signal(syscall.SIGSTOP) }

func thaw(p *os.Process) { _ = p.Signal(syscall.SIGCONT) }
