package status

import (
	"maps"
	"slices"
	"strconv"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/snapshot"
)

// shownSnapshots are the snapshots of a placement as its status shows them.
type shownSnapshots struct {
	kept []snapshot.Snapshot
	// items returns the objects of a snapshot; it is nil if they are unknown.
	items func(index int) []snapshot.Item
	// enveloped maps objects, without version, to their envelopes, by the index of a snapshot.
	enveloped map[int]map[snapshot.ID]*snapshot.ID
	// untracked reports, by the index of a snapshot, whether it has objects whose availability
	// KubeFleet does not track.
	untracked map[int]bool
}

// shown returns the text of a snapshot's index in the status.
func (s *shownSnapshots) shown(index int) string {
	return strconv.Itoa(ShownIndex(s.kept, index))
}

// resources returns the selected resources of a snapshot, cut at shownResources, and their total
// count. An envelope stands for all objects in it.
func (s *shownSnapshots) resources(index int) ([]v1beta1.ResourceIdentifier, int) {
	if s.items == nil {
		return nil, 0
	}
	items := s.items(index)
	ids := make([]snapshot.ID, 0, len(items))
	opened := map[snapshot.ID]bool{}
	for i := range items {
		if envelope := items[i].Envelope; envelope != nil {
			opened[shownEnvelope(*envelope)] = true
		} else {
			ids = append(ids, items[i].ID)
		}
	}
	if kept := snapshotAt(s.kept, index); kept != nil {
		for _, u := range kept.Unplaced {
			opened[shownEnvelope(u.Envelope)] = true
		}
	}
	if len(opened) > 0 {
		ids = slices.AppendSeq(ids, maps.Keys(opened))
		slices.SortFunc(ids, snapshot.ID.Compare)
	}
	out := make([]v1beta1.ResourceIdentifier, min(len(ids), shownResources))
	for i := range out {
		out[i] = kubefleet.ReferenceTo(ids[i], nil)
	}
	return out, len(ids)
}

// shownEnvelope returns the ID of an envelope in KubeFleet's version. KubeFleet has one version of
// envelopes, and a hub serves two.
func shownEnvelope(id snapshot.ID) snapshot.ID {
	id.Version = api.Version
	return id
}

// envelopeOf returns the envelope of an object in a snapshot, nil if it has none or is unknown.
func (s *shownSnapshots) envelopeOf(index int, id snapshot.ID) *snapshot.ID {
	kept := snapshotAt(s.kept, index)
	if kept == nil || kept.Origins == "" || s.items == nil {
		return nil
	}
	if s.enveloped[index] == nil {
		in := map[snapshot.ID]*snapshot.ID{}
		for _, item := range s.items(index) {
			if item.Envelope != nil {
				item.Version = ""
				in[item.ID] = item.Envelope
			}
		}
		s.enveloped[index] = in
	}
	id.Version = ""
	return s.enveloped[index][id]
}

// availability returns the reason and the message for a cluster whose snapshot is available. If
// KubeFleet does not track the availability of all kinds in the snapshot, the reason says so.
func (s *shownSnapshots) availability(index int) (reason, message string) {
	if _, known := s.untracked[index]; !known && s.items != nil {
		s.untracked[index] = slices.ContainsFunc(s.items(index), func(i snapshot.Item) bool { return !kubefleet.TracksAvailability(i.Group, i.Kind) })
	}
	if s.untracked[index] {
		return api.ReasonWorkNotTrackable, "All resources are available, by the health rules of this hub also those that KubeFleet does not track"
	}
	return api.ReasonWorkAvailable, "All resources are available"
}
