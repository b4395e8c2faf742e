//go:build linux || darwin || freebsd

package main

import (
	"os"
	"syscall"
	"unsafe"
)

// terminal is a terminal that can be drawn on.
type terminal struct{ fd uintptr }

// terminalOf returns the terminal behind a stream; false if there is none, or
// only a dumb one.
func terminalOf(stream any) (terminal, bool) {
	f, ok := stream.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return terminal{}, false
	}
	t := terminal{f.Fd()}
	_, _, ok = t.ask()
	return t, ok
}

// size returns the columns and rows as they are now.
func (t terminal) size() (columns, rows int) {
	if columns, rows, ok := t.ask(); ok && columns > 0 && rows > 0 {
		return columns, rows
	}
	return 80, 24
}

func (t terminal) ask() (columns, rows int, ok bool) {
	var answer struct{ rows, columns, width, height uint16 }
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, t.fd, syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&answer)))
	return int(answer.columns), int(answer.rows), errno == 0
}
