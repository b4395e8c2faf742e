package promenv

import (
	"os/exec"
	"syscall"
)

// tieToParent has the kernel kill the child when this process ends, however that happens.
func tieToParent(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
