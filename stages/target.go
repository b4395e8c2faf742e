package stages

// Target is the desired content of the clusters of a run. A digest is printable ASCII without
// spaces, at most 253 bytes.
type Target struct {
	// Placement is a DNS subdomain of at most [MaxPlacementName] characters.
	Placement string
	// Index, at least 0, and Snapshot are the index and the digest of the
	// snapshot.
	Index    int
	Snapshot string
	// Selection is the Digest of the Selection of package placement.
	Selection string
	// Revision maps the name of a cluster to the digest of its content after overrides.
	// Default is the digest for every cluster that Revision does not name; it may be empty
	// if Revision names all.
	Default  string
	Revision map[string]string
	// Remove names the clusters that left the placement, with the last known UID of each,
	// or an empty string.
	Remove map[string]string
	// Left names clusters that may have content of the placement and are no longer in the
	// inventory: a run does nothing there. They must be neither picked nor in Remove, and
	// there are at most [MaxLeft].
	Left []string
	// New names the picked clusters that have nothing of the placement and that no earlier run
	// intended to update. They belong to the groups with [Group].New. Picked clusters that it does not
	// name may have content.
	New map[string]bool
	// Unproven names the picked clusters that an earlier run began to change and did not prove to
	// have its content. Groups with [Group].UnprovenFirst begin with them.
	Unproven map[string]bool
	// Part reports whether the clusters are only some of the strategy's clusters, as in a
	// catch-up run. There may then be fewer clusters than a limit names, and a stage whose
	// [Stage].Take is less than 100% takes no share of them.
	Part bool
	// Stages is set for a catch-up run. It maps a cluster to its stage in the plan of the run before,
	// if that stage took a share or the rest. The cluster has this stage again, unless another stage
	// now selects it.
	Stages map[string]string
}

// Previous is the state of a cluster in a placement before a run.
type Previous struct {
	// Index and Snapshot are the index and the digest of the snapshot that the cluster was
	// proven to have. Revision is the digest of its content after overrides; empty if the
	// cluster had nothing.
	Index    int
	Snapshot string
	Revision string
	// Keep, if not empty, is the reason why the cluster is not rolled back.
	Keep string
	// Back reports whether the cluster already has that state again.
	Back bool
}
