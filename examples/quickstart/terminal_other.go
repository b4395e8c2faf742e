//go:build !(linux || darwin || freebsd)

package main

// terminal is a terminal that can be drawn on. Here there is none: what is
// drawn elsewhere is printed as lines.
type terminal struct{}

func terminalOf(any) (terminal, bool) { return terminal{}, false }

func (terminal) size() (columns, rows int) { return 80, 24 }
