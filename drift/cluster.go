package drift

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// ClusterState is the state of a cluster at the time of a [ClusterReport].
type ClusterState string

// The states of a report.
const (
	// Compared: every object was compared.
	Compared ClusterState = "Compared"
	// NotPlaced: the cluster never got the placement, or does not have it any more. That is no
	// drift.
	NotPlaced ClusterState = "NotPlaced"
	// Updating: an update has begun and not ended, so that each object may be in its old state, in
	// its new one or in between. Objects are compared only if the update restores drift.
	Updating ClusterState = "Updating"
	// Unknown: the cluster could not be read; Problems say why.
	Unknown ClusterState = "Unknown"
)

// Reason says what the difference of an object means, or what a run would do with the object.
type Reason string

// The reasons.
const (
	// FoundDrifts: an object that the placement applied was changed.
	FoundDrifts Reason = "FoundDrifts"
	// FoundDiff: the placement only reports.
	FoundDiff Reason = "FoundDiff"
	// NotTakenOver: the object was there before and is never taken over.
	NotTakenOver Reason = "NotTakenOver"
	// FailedToTakeOver: the object was there before, and differs.
	FailedToTakeOver Reason = "FailedToTakeOver"
	// ToCreate, ToChange, ToRemove and ToRelease are changes that a run would make, see
	// fleet.Preview.Diff. A released object stays on the cluster and no longer belongs to the
	// placement.
	ToCreate  Reason = "ToCreate"
	ToChange  Reason = "ToChange"
	ToRemove  Reason = "ToRemove"
	ToRelease Reason = "ToRelease"
)

// ObjectReport says how one object of a cluster differs.
type ObjectReport struct {
	Report
	Reason Reason `json:"reason"`
	// Observed is when the object was read. FirstObserved is when the first of an unbroken series
	// of reads found a difference.
	Observed      time.Time `json:"observationTime"`
	FirstObserved time.Time `json:"firstObservedTime"`
}

// ClusterReport is the drift of one cluster: the objects of a placement that differ from its
// revision.
type ClusterReport struct {
	Placement string       `json:"placement"`
	Cluster   string       `json:"cluster"`
	State     ClusterState `json:"state"`
	// Revision is the digest of the set that the cluster was compared with.
	Revision string    `json:"revision,omitempty"`
	Observed time.Time `json:"observationTime"`
	// Objects are the objects that differ, in the order of application. Total is the number of
	// objects that differ; a report that an engine stores is cut at 100 objects and 256 KiB.
	Objects []ObjectReport `json:"objects,omitempty"`
	Total   int            `json:"total"`
	// Problems are the objects that could not be compared, and why.
	Problems []string `json:"problems,omitempty"`
}

// Fingerprint returns the same text for clusters that differ in the same way, and an empty text for
// a cluster that does not differ.
func (c *ClusterReport) Fingerprint() string {
	if len(c.Objects) == 0 {
		return ""
	}
	var all []byte
	for i := range c.Objects {
		o := &c.Objects[i]
		all = fmt.Appendf(all, "%s/%s/%s/%s %s %s\n", o.Group, o.Kind, o.Namespace, o.Name, o.Reason, o.Report.Fingerprint)
	}
	sum := sha256.Sum256(all)
	return hex.EncodeToString(sum[:])
}
