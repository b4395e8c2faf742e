//go:build unix && !linux

package pgenv

import "syscall"

// tieToParent can do nothing here: a test process that is killed leaves its server behind.
func tieToParent(*syscall.SysProcAttr) {}
