package stages

// Target is what a run brings the clusters to. A digest is printable ASCII
// without spaces, at most 253 bytes.
type Target struct {
	// Placement is a DNS subdomain of at most [MaxPlacementName] characters.
	Placement string
	// Index, at least 0, and Snapshot are the index and the digest of the
	// snapshot.
	Index    int
	Snapshot string
	// Selection is the digest of the [placement.Selection].
	Selection string
	// Revision is the digest of what a cluster gets after overrides, by the
	// cluster's name; Default is that of every cluster it does not name, and
	// may be empty when it names all.
	Default  string
	Revision map[string]string
	// Remove names the clusters that left the placement, with the UID that is
	// known for each or "".
	Remove map[string]string
	// Left names clusters that may have something of the placement and that the inventory does not have any more: nothing is done
	// there. None of them is picked or in Remove, and there are at most [MaxLeft].
	Left []string
	// New has the clusters that have nothing of the placement, and that no run was to bring anything before, for the
	// groups of that name, see [Group].New. It names clusters that are picked; the others may have something.
	New map[string]bool
	// Part reports whether the clusters are only some of those that the strategy is
	// for, as in a run that catches up: they may be fewer than a cap names, and a
	// share of less than 100% is not taken of them.
	Part bool
	// Stages names the stage that a cluster had in the plan of the run that is caught up with, where
	// that took a share or the rest: it has it again, unless another stage selects the cluster by now.
	Stages map[string]string
}

// Previous is the state of a cluster in a placement before a run.
type Previous struct {
	// Index and Snapshot are the index and the digest of the snapshot which the
	// cluster was proven to have, Revision is the digest of what it got of that,
	// after overrides. An empty Revision means that it had nothing.
	Index    int
	Snapshot string
	Revision string
	// Keep, if not empty, is the reason why the cluster is not rolled back.
	Keep string
	// Back reports whether the cluster has it again.
	Back bool
}
