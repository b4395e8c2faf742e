package member

import (
	"fmt"
	"time"

	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/snapshot"
)

// DriftState says what a [ClusterDrift] is based on.
type DriftState string

// The states of a report.
const (
	// Compared: every object was compared.
	Compared DriftState = "Compared"
	// NotPlaced: the cluster never got the placement, or gave it up. That is no
	// drift.
	NotPlaced DriftState = "NotPlaced"
	// Updating: an update has begun and not ended, so that objects may be
	// anything between what they were and what they are to be. They are compared
	// only where they are being put back.
	Updating DriftState = "Updating"
	// Unknown: the cluster could not be read; Problems say why.
	Unknown DriftState = "Unknown"
)

// DriftReason says what a difference means for the object.
type DriftReason string

// The reasons.
const (
	// FoundDrifts: what the placement applied was changed.
	FoundDrifts DriftReason = "FoundDrifts"
	// FoundDiff: the placement only reports.
	FoundDiff DriftReason = "FoundDiff"
	// NotTakenOver: the object was there before and is never taken over.
	NotTakenOver DriftReason = "NotTakenOver"
	// FailedToTakeOver: it was there before, and differs.
	FailedToTakeOver DriftReason = "FailedToTakeOver"
	// ToCreate, ToChange, ToRemove and ToRelease are what a run would do, see
	// Applier.Preview. What is released is no longer the placement's and stays.
	ToCreate  DriftReason = "ToCreate"
	ToChange  DriftReason = "ToChange"
	ToRemove  DriftReason = "ToRemove"
	ToRelease DriftReason = "ToRelease"
)

// ObjectDrift is how one object differs.
type ObjectDrift struct {
	drift.Report
	Reason DriftReason `json:"reason"`
	// Observed is when it was read, FirstObserved since when each read found
	// a difference.
	Observed      time.Time `json:"observationTime"`
	FirstObserved time.Time `json:"firstObservedTime"`
}

// ClusterDrift is how one cluster differs from what it should have.
type ClusterDrift struct {
	Placement string     `json:"placement"`
	Cluster   string     `json:"cluster"`
	State     DriftState `json:"state"`
	// Revision is the digest of the set that it was compared with.
	Revision string    `json:"revision,omitempty"`
	Observed time.Time `json:"observationTime"`
	// Objects are those that differ, in the order of application. Total is how
	// many there are; what is kept in the store is cut at 100 objects and 256 KiB.
	Objects []ObjectDrift `json:"objects,omitempty"`
	Total   int           `json:"total"`
	// Problems are what could not be compared, and why.
	Problems []string `json:"problems,omitempty"`
	// ends reports that an object ended which the ledger does not know to have ended.
	ends bool
}

// HasEnds reports whether an object has ended since the ledger was written, see [Applier.RecordEnds].
func HasEnds(c *ClusterDrift) bool { return c.ends }

// Fingerprint is the same for clusters that differ in the same way, empty for
// one that does not differ.
func (c *ClusterDrift) Fingerprint() string {
	if len(c.Objects) == 0 {
		return ""
	}
	var all []byte
	for i := range c.Objects {
		o := &c.Objects[i]
		all = fmt.Appendf(all, "%s/%s/%s/%s %s %s\n", o.Group, o.Kind, o.Namespace, o.Name, o.Reason, o.Report.Fingerprint)
	}
	return snapshot.Digest(all)
}

// add adds an object that differs.
func (c *ClusterDrift) add(o ObjectDrift) {
	c.Objects = append(c.Objects, o)
	c.Total++
}
