package pgenv

import "syscall"

// tieToParent has the kernel tell the server to end at once when this process ends.
func tieToParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
