package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/internal/remote"
)

// store is where everything is kept: the file, or the process that has it open.
type store struct {
	backend.Watcher
	// ours reports whether the file is open here, so that no other process drives.
	ours   bool
	path   string
	closes []func() error
}

// How long the file may be in use by a process that is about to end, or that has not
// begun to listen yet.
const (
	patience = 5 * time.Second
	moment   = 50 * time.Millisecond
)

// open opens the file of a fleet, directly or through the process that has it open.
func open(ctx context.Context, l line) (*store, error) {
	path := l.one("data")
	if path == "" {
		path = l.fleet() + ".db"
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && !l.command.makes {
		return nil, fmt.Errorf("there is no file %s: begin with member create, or name another one with --data", path)
	}
	s, err := reach(ctx, path)
	if err != nil {
		return nil, err
	}
	if err := s.claim(ctx, l); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// reach tries the file and the socket beside it in turn.
func reach(ctx context.Context, path string) (*store, error) {
	for began := time.Now(); ; {
		file, err := bolt.Open(path, bolt.Options{})
		if err == nil {
			return &store{Watcher: file, ours: true, path: path, closes: []func() error{file.Close}}, nil
		}
		if !errors.Is(err, bolt.ErrInUse) {
			return nil, err
		}
		client := remote.NewClient(socketOf(path), fmt.Sprintf("upgrade-%d", os.Getpid()))
		_, asked := client.Get(ctx, fleetKey)
		if asked == nil || errors.Is(asked, backend.ErrNotFound) {
			return &store{Watcher: client, path: path, closes: []func() error{client.Close}}, nil
		}
		if time.Since(began) > patience || ctx.Err() != nil {
			return nil, fmt.Errorf("%w, and does not answer at %s", err, socketOf(path))
		}
		pause(ctx, moment)
	}
}

// again opens the file once more, after the process that had it open is gone.
func (s *store) again(ctx context.Context) error {
	if err := s.close(); err != nil {
		return err
	}
	s.closes = nil
	fresh, err := reach(ctx, s.path)
	if err != nil {
		return err
	}
	*s = *fresh
	return nil
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func socketOf(path string) string { return path + ".sock" }

func (s *store) close() error {
	var errs []error
	for _, end := range slices.Backward(s.closes) {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// serve lets other processes use the file until the store is closed. What a process
// that was killed has left behind is in the way; no living process listens there, since
// the file is open here.
func (s *store) serve() error {
	path := socketOf(s.path)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("other processes cannot reach the file: %w: take a shorter --data", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(err, listener.Close())
	}
	handler := remote.NewServer(remote.Config{Store: s.Watcher})
	server := &http.Server{Handler: handler, ReadHeaderTimeout: patience}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // it ends when it is closed
	}()
	s.closes = append(s.closes, func() error {
		err := errors.Join(server.Close(), handler.Close())
		<-done
		return err
	})
	return nil
}

// The keys of what the program keeps beside the engine's records.
const (
	fleetKey    = "upgrade/fleet"
	worldKey    = "upgrade/world"
	memberKeys  = "upgrade/member/"
	stagesKeys  = "upgrade/strategy/"
	runKeys     = "upgrade/run/"
	keptVersion = 1
)

// owner is whose file it is.
type owner struct {
	Format        int    `json:"format"`
	ResourceGroup string `json:"resourceGroup"`
	Fleet         string `json:"fleet"`
}

// claim makes the file that of the fleet, or refuses it if it is another one's.
func (s *store) claim(ctx context.Context, l line) error {
	want := owner{Format: keptVersion, ResourceGroup: l.one("resource-group"), Fleet: l.fleet()}
	var have owner
	_, err := s.read(ctx, fleetKey, &have)
	if errors.Is(err, backend.ErrNotFound) && l.command.makes {
		return s.write(ctx, fleetKey, want, "")
	}
	if errors.Is(err, backend.ErrNotFound) {
		return fmt.Errorf("%s has no fleet: begin with member create", s.path)
	}
	if err == nil && have != want {
		err = fmt.Errorf("%s has the fleet %s of the resource group %s: name another file with --data", s.path, have.Fleet, have.ResourceGroup)
	}
	return err
}

// read reads a record of the program's own.
func (s *store) read(ctx context.Context, key string, into any) (backend.Revision, error) {
	rec, err := s.Get(ctx, key)
	if err != nil {
		return "", err
	}
	return rec.Revision, decode(rec, into)
}

// decode refuses what another version wrote.
func decode(rec backend.Record, into any) error {
	var head struct {
		Format int `json:"format"`
	}
	err := json.Unmarshal(rec.Value, &head)
	if err == nil && head.Format != keptVersion {
		err = fmt.Errorf("it has format %d, this program knows %d", head.Format, keptVersion)
	}
	if err == nil {
		err = json.Unmarshal(rec.Value, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", rec.Key, err)
	}
	return nil
}

func (s *store) write(ctx context.Context, key string, what any, prev backend.Revision) error {
	value, err := json.Marshal(what)
	if err == nil {
		_, err = s.Put(ctx, key, value, prev)
	}
	return err
}

// remove deletes a record, whatever its revision.
func (s *store) remove(ctx context.Context, key string) error {
	for {
		rec, err := s.Get(ctx, key)
		if err == nil {
			err = s.Delete(ctx, key, rec.Revision)
		}
		if !errors.Is(err, backend.ErrConflict) {
			return err
		}
	}
}

// each yields the records of the program's own whose keys begin so, by name.
func each[T any](ctx context.Context, s *store, prefix string) ([]T, error) {
	var list []T
	for rec, err := range s.List(ctx, prefix) {
		var x T
		if err == nil {
			err = decode(rec, &x)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	return list, nil
}
