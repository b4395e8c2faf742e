package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/bolt"
)

// errFull is what a write meets while the disk is full.
var errFull = errors.New("no space left on device")

// meter counts the writes that a process makes to all its stores. At one of
// them it may end the process, and for a while it may let none through.
type meter struct {
	writes atomic.Int64
	full   atomic.Bool
	// dieAt is the number of the write at which the process ends, 0 for none;
	// dieAfter lets that write happen first.
	dieAt    int64
	dieAfter bool
}

func (m *meter) around(write func() error) error {
	n := m.writes.Add(1)
	if m.full.Load() {
		return errFull
	}
	if n == m.dieAt && !m.dieAfter {
		die()
	}
	err := write()
	if n == m.dieAt {
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
	meter *meter
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

// auditPrefix is where the audit of the members is kept.
const auditPrefix = "audit/"

// audited is the store of the members. To the commit that changes the content
// of an object it adds for whom that was done, so that a kill cannot come
// between the two.
type audited struct {
	*meteredStore
	mu    sync.Mutex
	known map[string]bool
}

// audit is one change of the content of one object of a member.
type audit struct {
	stamp
	Object     string `json:"object"`
	UID        uint64 `json:"uid"`
	Generation int64  `json:"generation"`
}

// stamp says for whom a member is changed.
type stamp struct {
	Cluster string `json:"cluster"`
	Run     string `json:"run"`
	RunUID  string `json:"runUID"`
	Attempt int    `json:"attempt"`
	Epoch   int64  `json:"epoch"`
}

type stampKey struct{}

// openAudited returns the store with the audit that it has.
func openAudited(ctx context.Context, s *meteredStore) (*audited, error) {
	a := &audited{meteredStore: s, known: map[string]bool{}}
	for r, err := range s.List(ctx, auditPrefix) {
		if err != nil {
			return nil, err
		}
		a.known[r.Key] = true
	}
	return a, nil
}

func (a *audited) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	entries, err := a.entries(ctx, key, value)
	if err != nil {
		return "", err
	}
	revs, err := a.meteredStore.WriteAll(ctx, append([]backend.Write{{Key: key, Value: value, Prev: prev}}, entries...))
	if len(revs) == 0 || err != nil && !errors.Is(err, backend.ErrConflict) {
		return "", err
	}
	a.remember(entries)
	return revs[0], nil // an entry that exists was made by a write that seemed to fail
}

func (a *audited) remember(entries []backend.Write) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range entries {
		a.known[e.Key] = true
	}
}

// entries returns what is to be added to the audit: each object of a member in
// a generation that the audit does not have.
func (a *audited) entries(ctx context.Context, key string, value []byte) (more []backend.Write, err error) {
	by, stamped := ctx.Value(stampKey{}).(stamp)
	if !stamped || !strings.HasPrefix(key, "member/") {
		return nil, nil
	}
	var m auditedMember
	if err := json.Unmarshal(value, &m); err != nil {
		return nil, err
	}
	for _, o := range m.State.Objects {
		at := fmt.Sprintf("%s%s/%d/%d-%d", auditPrefix, strings.TrimPrefix(key, "member/"), m.Made, o.UID, o.Generation)
		if o.Dying || o.Live.Kind != settingKind || a.has(at) { // ledgers and namespaces do not count
			continue
		}
		value, err := json.Marshal(audit{by, o.Live.Metadata.Name, o.UID, o.Generation})
		if err != nil {
			return nil, err
		}
		more = append(more, backend.Write{Key: at, Value: value})
	}
	return more, nil
}

// auditedMember is the record of a member, as far as it is audited.
type auditedMember struct {
	Made  int `json:"made"`
	State struct {
		Objects []struct {
			UID        uint64 `json:"uid"`
			Generation int64  `json:"generation"`
			Dying      bool   `json:"dying"`
			Live       struct {
				Kind     string `json:"kind"`
				Metadata struct {
					Name string `json:"name"`
				} `json:"metadata"`
			} `json:"live"`
		} `json:"objects"`
	} `json:"state"`
}

func (a *audited) has(key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.known[key]
}

// forget deletes the audit.
func (a *audited) forget(ctx context.Context) error {
	writes := []backend.Write{}
	for r, err := range a.List(ctx, auditPrefix) {
		if err != nil {
			return err
		}
		writes = append(writes, backend.Write{Key: r.Key, Prev: r.Revision, Delete: true})
	}
	if _, err := a.meteredStore.WriteAll(ctx, writes); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.known)
	return nil
}

// audits returns the audit of all members.
func (a *audited) audits(ctx context.Context) (out []audit, err error) {
	for r, err := range a.List(ctx, auditPrefix) {
		if err != nil {
			return nil, err
		}
		var e audit
		if err := json.Unmarshal(r.Value, &e); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Key, err)
		}
		out = append(out, e)
	}
	return out, nil
}
