package bolt_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/slipway-dev/slipway/backend/bolt"
)

// A reopened store contains all acknowledged writes.
func Example() {
	dir, err := os.MkdirTemp("", "slipway")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path, ctx := filepath.Join(dir, "slipway.db"), context.Background()
	for range 2 {
		store, err := bolt.Open(path, bolt.Options{})
		if err != nil {
			fmt.Println(err)
			return
		}
		rec, err := store.Get(ctx, "run/web-1")
		fmt.Printf("%s (%v)\n", rec.Value, err)
		_, err = store.Put(ctx, "run/web-1", []byte("half done"), rec.Revision)
		fmt.Println(err, store.Close())
	}
	// Output:
	//  (get run/web-1: not found)
	// <nil> <nil>
	// half done (<nil>)
	// <nil> <nil>
}

// A copy of a store is made while it is used.
func ExampleStore_Backup() {
	dir, err := os.MkdirTemp("", "slipway")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	store, err := bolt.Open(filepath.Join(dir, "slipway.db"), bolt.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	copied, err := os.Create(filepath.Join(dir, "backup.db"))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = store.Backup(context.Background(), copied)
	fmt.Println(err, copied.Sync(), copied.Close())
	backup, err := bolt.Open(copied.Name(), bolt.Options{ReadOnly: true})
	if err == nil {
		err = backup.Close()
	}
	fmt.Println(err)
	// Output:
	// <nil> <nil> <nil>
	// <nil>
}
