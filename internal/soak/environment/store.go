package environment

import (
	"context"
	"errors"
	"os"
	"sync/atomic"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/bolt"
)

// ErrFull is the error of a write while [Meter].Full is set.
var ErrFull = errors.New("no space left on device")

// Meter counts the writes of a process to all its stores. It can refuse them, and end the process
// at one of them.
type Meter struct {
	Writes atomic.Int64
	// Full refuses writes with ErrFull.
	Full atomic.Bool
	// DieAt is the number of the write at which the process ends, or 0. With DieAfter it ends after
	// this write instead of before it.
	DieAt    int64
	DieAfter bool
}

func (m *Meter) around(write func() error) error {
	n := m.Writes.Add(1)
	if m.Full.Load() {
		return ErrFull
	}
	if n == m.DieAt && !m.DieAfter {
		die()
	}
	err := write()
	if n == m.DieAt {
		die()
	}
	return err
}

// die ends the process as SIGKILL does.
func die() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Kill()
	}
	select {}
}

// meteredStore is a store whose writes go through a meter.
type meteredStore struct {
	*bolt.Store
	meter *Meter
}

func (s *meteredStore) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (rev backend.Revision, err error) {
	err = s.meter.around(func() error {
		rev, err = s.Store.Put(ctx, key, value, prev)
		return err
	})
	return rev, err
}

func (s *meteredStore) Delete(ctx context.Context, key string, prev backend.Revision) error {
	return s.meter.around(func() error { return s.Store.Delete(ctx, key, prev) })
}

func (s *meteredStore) WriteAll(ctx context.Context, writes []backend.Write) (revs []backend.Revision, err error) {
	err = s.meter.around(func() error {
		revs, err = s.Store.WriteAll(ctx, writes)
		return err
	})
	return revs, err
}
