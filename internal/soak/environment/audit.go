package environment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/slipway-dev/slipway/backend"
)

// AuditPrefix is the prefix of the keys of audits in the cluster file.
const AuditPrefix = "audit/"

// audited is the store of the members. The commit that changes the content of an object also
// records the run that the change is made for, so that a kill cannot come between the two.
type audited struct {
	*meteredStore
	mu    sync.Mutex
	known map[string]bool
}

// Audit is one change of the content of one object of a member.
type Audit struct {
	stamp
	Object     string `json:"object"`
	UID        uint64 `json:"uid"`
	Generation int64  `json:"generation"`
}

// stamp is the run that a member is changed for.
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
	for r, err := range s.List(ctx, AuditPrefix) {
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

// entries returns the records to add to the audit: one for each object of a member in a
// generation that the audit does not have.
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
		at := fmt.Sprintf("%s%s/%d/%d-%d", AuditPrefix, strings.TrimPrefix(key, "member/"), m.Made, o.UID, o.Generation)
		if o.Dying || o.Live.Kind != SettingKind || a.has(at) { // ledgers and namespaces do not count
			continue
		}
		value, err := json.Marshal(Audit{by, o.Live.Metadata.Name, o.UID, o.Generation})
		if err != nil {
			return nil, err
		}
		more = append(more, backend.Write{Key: at, Value: value})
	}
	return more, nil
}

// auditedMember is the audited part of a member's record.
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
	for r, err := range a.List(ctx, AuditPrefix) {
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

// Audits returns all changes of members since the last Reset.
func (env *Environment) Audits(ctx context.Context) (out []Audit, err error) {
	for r, err := range env.clusterStore.List(ctx, AuditPrefix) {
		if err != nil {
			return nil, err
		}
		var e Audit
		if err := json.Unmarshal(r.Value, &e); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Key, err)
		}
		out = append(out, e)
	}
	return out, nil
}

// CheckAudit returns an error if the audit shows that an attempt applied an object twice.
func (env *Environment) CheckAudit(ctx context.Context) error {
	audits, err := env.Audits(ctx)
	if err != nil {
		return err
	}
	seen := map[string]Audit{}
	for _, a := range audits {
		key := fmt.Sprint(a.Cluster, a.Object, a.UID, a.RunUID, a.Attempt)
		if first, ok := seen[key]; ok && a.RunUID != "" {
			env.Violations.Add("%s on cluster %s was changed twice by attempt %d of run %s: generation %d at epoch %d, generation %d at epoch %d",
				a.Object, a.Cluster, a.Attempt, a.Run, first.Generation, first.Epoch, a.Generation, a.Epoch)
		}
		seen[key] = a
	}
	return nil
}
