package memory

import (
	"encoding/json"
	"fmt"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/slipway-dev/slipway/internal/feed"
)

// clusterState is a [Cluster] as JSON.
type clusterState struct {
	UIDs    uint64        `json:"uids"`
	Version uint64        `json:"version"`
	Objects []objectState `json:"objects"`
}

type objectState struct {
	Live       tree         `json:"live"`
	Owners     []ownerState `json:"owners,omitempty"`
	Status     tree         `json:"status,omitempty"`
	UID        uint64       `json:"uid"`
	Version    uint64       `json:"version"`
	Generation int64        `json:"generation"`
	Created    int64        `json:"created,omitempty"`
	Deleted    int64        `json:"deleted,omitempty"`
	Dying      bool         `json:"dying,omitempty"`
}

// ownerState is an owner; without fields it owns the whole object.
type ownerState struct {
	Manager string `json:"manager"`
	Fields  tree   `json:"fields,omitempty"`
}

// State returns the content of the cluster as JSON for [Cluster.Restore]: the objects with their
// owners, and the counters, but not its clock, controllers and log. Equal states give equal bytes.
func (c *Cluster) State() ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := clusterState{UIDs: c.uids, Version: c.version, Objects: []objectState{}}
	for _, k := range c.keys() {
		o := c.objects[k]
		state := objectState{o.live, nil, o.status, o.uid, o.version, o.generation, o.created, o.deleted, o.dying}
		for _, w := range o.owners {
			if equal(w.fields, o.live) {
				w.fields = nil
			}
			state.Owners = append(state.Owners, ownerState{w.manager, w.fields})
		}
		s.Objects = append(s.Objects, state)
	}
	return json.Marshal(s)
}

// Restore replaces the content of the cluster by a result of State for a cluster of the same name
// and uid, and wakes its watches. The cluster never issues again a uid or a resourceVersion that it
// has issued before.
func (c *Cluster) Restore(state []byte) error {
	var s clusterState
	if err := utiljson.Unmarshal(state, &s); err != nil {
		return failed("restore", c.name, invalid(err.Error()))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	objects := make(map[key]*object, len(s.Objects))
	for i, o := range s.Objects {
		k, err := identifyTree(o.Live)
		if err != nil {
			return failed("restore", c.name, fmt.Errorf("object %d: %w", i, err))
		}
		held := &content{live: o.Live}
		for _, w := range o.Owners {
			if w.Fields == nil {
				w.Fields = o.Live
			}
			held.owners = append(held.owners, owner{w.Manager, w.Fields})
		}
		objects[k] = &object{c.shared.share(k, held), o.Status, o.UID, o.Version, o.Generation, o.Created, o.Deleted, o.Dying}
	}
	c.objects, c.uids, c.version = objects, max(c.uids, s.UIDs), max(c.version, s.Version)
	for w := range c.watches {
		feed.Wake(w.signal)
	}
	return nil
}
