package fleet

import (
	"slices"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// placementFormat is the version of a placement's record that has what version 1
// does not know, envelopesFormat that of one with a snapshot of envelopes;
// newestPlacementFormat is that of one of a namespace, or with a snapshot of what
// namespaces bring, and the newest that is read.
const (
	placementFormat       = 2
	envelopesFormat       = 3
	newestPlacementFormat = 4
)

// format is the oldest version that has all that is in the record.
func (rec *placementRecord) format() int {
	if rec.Placement.Namespace != "" || slices.ContainsFunc(rec.Snapshots, func(s snapshot.Snapshot) bool { return len(s.Enveloped) > 0 }) {
		return newestPlacementFormat
	}
	if slices.ContainsFunc(rec.Snapshots, func(s snapshot.Snapshot) bool { return s.Envelopes > 0 }) {
		return envelopesFormat
	}
	if rec.hasRollbacks() || slices.ContainsFunc(rec.Placement.Overrides, func(o placement.Override) bool { return o.Priority != 0 || namesClusters(o) }) ||
		weighs(rec.Placement.Policy) {
		return placementFormat
	}
	if slices.ContainsFunc(rec.Placement.Selectors, func(s snapshot.Selector) bool { return s.Scope != "" }) {
		return placementFormat
	}
	return recordFormat
}

// namesClusters reports whether an override is for clusters that it names.
func namesClusters(o placement.Override) bool {
	return slices.ContainsFunc(o.Rules, func(r placement.Rule) bool {
		return r.ClusterSelector != nil && slices.ContainsFunc(r.ClusterSelector.Terms, func(t placement.ClusterTerm) bool { return len(t.ClusterNames) > 0 })
	})
}

// weighs reports whether a policy does more than to pick all clusters by label, or
// some by name.
func weighs(p placement.Policy) bool {
	return p.Type == placement.PickN || len(p.Tolerations) > 0 ||
		slices.ContainsFunc(p.Required, func(t placement.Term) bool { return len(t.Properties) > 0 })
}

// encode returns the record as it is stored.
func (rec *placementRecord) encode() []byte {
	head := *rec
	head.Format = rec.format()
	return encodeRecord(&head)
}
