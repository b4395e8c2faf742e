//go:build !unix

package bolt

import (
	"io/fs"
	"os"
)

// openFlags is 0 because these flags do not exist here.
const openFlags = 0

// private accepts every file: write access is governed by the system's own access control lists.
func private(fs.FileInfo) error { return nil }

func makePrivate(*os.File) error { return nil }
