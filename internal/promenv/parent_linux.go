package promenv

import (
	"os/exec"
	"syscall"
)

// tieToParent tells the kernel to kill the child when this process ends for any reason.
func tieToParent(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
