package bolt

import "errors"

// OpenFlags are those with which a file is opened.
const OpenFlags = openFlags

// OpenNew makes a new file.
func OpenNew(name string) error {
	f, err := openTrusted(name, newFile)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), removed(name))
}
