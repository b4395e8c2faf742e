package placement

// DeletePolicy says what becomes of objects that are to go from a cluster.
type DeletePolicy string

const (
	// DeleteCreated is the default: it deletes what the placement created, and releases what it took over, namespaces above
	// all.
	DeleteCreated DeletePolicy = "DeleteCreated"
	// DeleteAll deletes what it took over, too. Released is what belongs to others besides: what another placement
	// applies or what has an owner, and a namespace that was taken over and has objects in it that the placement did
	// not place, or of which that is not known because the connection is no backend.ConnLister or may not list.
	DeleteAll DeletePolicy = "Delete"
	// Abandon releases everything when the placement is deleted, and is DeleteAll before that.
	Abandon DeletePolicy = "Abandon"
)
