//go:build !unix

package httpapi

import "io/fs"

// isOwned reports that a file belongs to the process's user: there its access control lists have to see to that.
func isOwned(fs.FileInfo) bool { return true }
