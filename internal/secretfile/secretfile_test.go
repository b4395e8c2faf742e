//go:build unix

package secretfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-dev/slipway/internal/secretfile"
)

// write makes a file with a mode, whatever the umask.
func write(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path, []byte("s3cret"), 0o600), os.Chmod(path, mode)); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyTheOwnerMayReadATokenFile(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for mode, ok := range map[fs.FileMode]bool{
		0o600: true, 0o400: true, 0o700: true,
		0o640: false, 0o604: false, 0o644: false, 0o440: false, 0o444: false, 0o620: false, 0o666: false,
	} {
		path := filepath.Join(t.TempDir(), "token")
		write(t, path, mode)
		text, err := secretfile.Read(path, 4)
		var wrong *secretfile.ModeError
		switch {
		case ok && (err != nil || string(text) != "s3cr"):
			t.Errorf("mode %04o: %q, %v", mode, text, err)
		case !ok && (!errors.As(err, &wrong) || wrong.Mode.Perm() != mode || wrong.Path != path || text != nil):
			t.Errorf("mode %04o: %q, %v", mode, text, err)
		case !ok && !strings.Contains(err.Error(), "chmod 0600 "+path):
			t.Errorf("mode %04o: the error is %v", mode, err)
		}
	}
}

// TestTheFileOfAnotherUserIsRead: root:service 0640 is how a package installs the token of a
// service.
func TestTheFileOfAnotherUserIsRead(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	path := filepath.Join(t.TempDir(), "token")
	write(t, path, 0o644)
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	if err := os.Chown(path, 1001, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := secretfile.Read(path, 10); err != nil {
		t.Error(err)
	}
}

// TestMountedSecretsInAPodAreRead: the kubelet writes the files of a Secret into a separate
// directory and links to them.
func TestMountedSecretsInAPodAreRead(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	volume := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(volume, "..2026_01_02"), 0o750), os.Symlink("..2026_01_02", filepath.Join(volume, "..data")),
		os.Symlink("..data/token", filepath.Join(volume, "token"))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(volume, "token")
	for _, mode := range []fs.FileMode{0o644, 0o444, 0o440, 0o640, 0o600} {
		write(t, filepath.Join(volume, "..2026_01_02", "token"), 0o600)
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if text, err := secretfile.Read(path, 10); err != nil || string(text) != "s3cret" {
			t.Errorf("mode %04o: %q, %v", mode, text, err)
		}
	}
}

// TestPipesAreReadWithoutModeChecks: a shell hands a token over by a pipe, as in --token-file
// <(vault read …).
func TestPipesAreReadWithoutModeChecks(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	path := filepath.Join(t.TempDir(), "pipe")
	if err := errors.Join(syscall.Mkfifo(path, 0o600), os.Chmod(path, 0o644)); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(path, []byte("s3cret"), 0o600) }()
	text, err := secretfile.Read(path, 10)
	if err := errors.Join(err, <-written); err != nil || string(text) != "s3cret" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := secretfile.Read(path+"-not", 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the error of no file is %v", err)
	}
}
