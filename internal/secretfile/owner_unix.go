//go:build unix

package secretfile

import (
	"io/fs"
	"os"
	"syscall"
)

// isOwned reports whether a file belongs to the process's user.
func isOwned(info fs.FileInfo) bool {
	st, is := info.Sys().(*syscall.Stat_t)
	return is && int(st.Uid) == os.Geteuid()
}
