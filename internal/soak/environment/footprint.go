package environment

import (
	"context"
	"strings"

	"github.com/slipway-dev/slipway/backend/bolt"
)

// Footprint is the size and content of an environment's files.
type Footprint struct {
	// EngineBytes and ClusterBytes are the sizes of the files, RecordBytes the bytes of the records
	// in both.
	EngineBytes, ClusterBytes, RecordBytes int64
	// Records is the number of records of the engines. Orphans are the keys of records that only a
	// run owns; there must be none after the deletion of all runs.
	Records int
	Orphans []string
}

// Footprint measures the files.
func (env *Environment) Footprint(ctx context.Context) (f Footprint, err error) {
	f.EngineBytes, f.ClusterBytes = env.Store.Stats().FileBytes, env.clusterStore.Stats().FileBytes
	for _, file := range []*bolt.Store{env.Store, env.clusterStore} {
		for r, err := range file.List(ctx, "") {
			if err != nil {
				return f, err
			}
			f.RecordBytes += int64(len(r.Key) + len(r.Value))
			if file == env.Store {
				f.Count(r.Key)
			}
		}
	}
	return f, nil
}

// Count adds a record of the engines.
func (f *Footprint) Count(key string) {
	f.Records++
	if strings.HasPrefix(key, "journal/placement.") {
		return
	}
	for _, prefix := range []string{"run/", "plan/", "inflight/", "command/", "journal/"} {
		if strings.HasPrefix(key, prefix) {
			f.Orphans = append(f.Orphans, key)
		}
	}
}
