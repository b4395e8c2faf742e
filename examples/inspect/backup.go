package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/slipway-dev/slipway/backend/bolt"
)

// copied says what a backup has.
type copied struct {
	File    string `json:"file"`
	Bytes   int64  `json:"bytes"`
	Records int64  `json:"records"`
}

// backup copies the file to a new one, which is opened to see that it is a
// store. Where that fails there is no new file.
func backup(ctx context.Context, v *view) error {
	f, err := os.OpenFile(v.arg, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists: a backup is made to a new file", v.arg)
	}
	if err != nil {
		return err
	}
	c := copied{File: v.arg}
	c.Bytes, err = v.store.Backup(ctx, f)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		c.Records, err = recordsIn(v.arg)
	}
	if err != nil {
		return errors.Join(err, os.Remove(v.arg))
	}
	if v.json {
		v.object(c)
		return nil
	}
	v.write(fmt.Sprintf("%s: %s of %s\n", clean(c.File), count(int(c.Records), "record"), size(c.Bytes)))
	return nil
}

// recordsIn opens a store, which checks all of it.
func recordsIn(path string) (int64, error) {
	s, err := bolt.Open(path, bolt.Options{ReadOnly: true})
	if err != nil {
		return 0, err
	}
	return s.Stats().Records, s.Close()
}
