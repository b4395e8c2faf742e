// Package secretfile opens files with credentials, such as bearer tokens, if only their owner can
// read them.
//
// The rule is OpenSSH's for private keys: a file that the user of the process owns must give no
// access to its group or to others. The rule does not apply to a file of another user, so a file
// of root with mode 0640 for the group of a service is read. In a Pod the file is in a volume
// that only the containers of the Pod see, and Kubernetes mounts Secrets with mode 0644 and
// tokens with the group of the Pod: there all modes are accepted. A process is in a Pod if
// KUBERNETES_SERVICE_HOST is set, as client-go decides it too. Pipes, and files of systems
// without owners, have no rule.
package secretfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ModeError is a file that other users can access.
type ModeError struct {
	Path string
	Mode fs.FileMode
}

// Error names the file, its mode and the right mode.
func (e *ModeError) Error() string {
	return fmt.Sprintf("%s has mode %04o, so other users can access the token: its mode must be 0600 (chmod 0600 %s)",
		e.Path, e.Mode.Perm(), e.Path)
}

// Open opens a file for reading. The error is a *ModeError if other users can access a file of
// the process's user.
func Open(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !inPod() && info.Mode().IsRegular() && isOwned(info) && info.Mode().Perm()&0o077 != 0 {
		err = &ModeError{Path: path, Mode: info.Mode()}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Read returns at most limit bytes of a file that Open opens.
func Read(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, limit))
	return text, errors.Join(err, f.Close())
}

// inPod reports whether the process runs in a Pod.
func inPod() bool { return os.Getenv("KUBERNETES_SERVICE_HOST") != "" }
