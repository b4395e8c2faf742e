package bolt

import (
	"fmt"
	"io/fs"
	"os"
)

// openTrusted opens the file at name, or creates it if flag has newFile. It refuses a file that
// may be under the control of another user. The checks of the open file count; the name is
// checked first only because opening a FIFO may block, and opening a device may have effects.
func openTrusted(name string, flag int) (*os.File, error) {
	isNew := flag&newFile == newFile
	if !isNew {
		info, err := os.Lstat(name)
		if err == nil {
			err = regular(info)
		}
		if err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(name, flag|openFlags, 0o600)
	if err != nil {
		return nil, err
	}
	if isNew {
		err = f.Chmod(0o600) // undoes the umask
	}
	var info fs.FileInfo
	if err == nil {
		info, err = f.Stat()
	}
	if err == nil {
		err = regular(info)
	}
	if err == nil {
		err = private(info)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}

// regular refuses everything but a regular file.
func regular(info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		return fmt.Errorf("%w: it is a symbolic link; give the path of the file itself", ErrUnsafe)
	case mode.IsDir():
		return fmt.Errorf("%w: it is a directory; give the path of a file in it, such as slipway.db", ErrUnsafe)
	case !mode.IsRegular():
		return fmt.Errorf("%w: it is not a regular file but %v", ErrUnsafe, mode.Type())
	}
	return nil
}
