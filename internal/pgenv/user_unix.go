//go:build unix

package pgenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// account is the user that servers run as: nil for the user of this process.
type account struct{ uid, gid uint32 }

// serverAccount returns the account of servers: PostgreSQL refuses to run as root.
func serverAccount() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // nil means that the server runs as the user of this process
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return nil, fmt.Errorf("pgenv: user %s: %w", name, err)
		}
		return &account{uint32(uid), uint32(gid)}, nil
	}
	return nil, errors.New("pgenv: there is no user postgres or nobody, and PostgreSQL does not run as root")
}

// own gives the file to the account.
func (a *account) own(name string) error {
	if a == nil {
		return nil
	}
	return os.Chown(name, int(a.uid), int(a.gid))
}

// as makes the account run the program. If tie is set, the program ends when this process ends,
// for any reason.
func (a *account) as(c *exec.Cmd, tie bool) {
	c.SysProcAttr = &syscall.SysProcAttr{}
	if a != nil {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	}
	if tie {
		tieToParent(c.SysProcAttr)
	}
}

// kill sends SIGKILL to a process.
func kill(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }

// Signals of the postmaster.
const (
	fastShutdown = syscall.SIGINT
	reload       = syscall.SIGHUP
)
