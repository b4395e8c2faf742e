package bolt

import "errors"

// OpenFlags are the flags for opening a file.
const OpenFlags = openFlags

// OpenNew makes a new file.
func OpenNew(name string) error {
	f, err := openTrusted(name, newFile)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), removed(name))
}
