package placement

// DeletePolicy says whether objects are deleted or released when a placement or a cluster no
// longer has them.
type DeletePolicy string

const (
	// DeleteCreated is the default: it deletes the objects that the placement created and releases
	// the objects that it adopted, above all namespaces.
	DeleteCreated DeletePolicy = "DeleteCreated"
	// DeleteAll deletes adopted objects, too. It releases only objects that others need: an object
	// that another placement applies or that has an owner, and an adopted namespace if it contains
	// objects of others, or if its content is unknown because the connection is no
	// backend.ConnLister or lacks the right to list.
	DeleteAll DeletePolicy = "Delete"
	// Abandon is DeleteAll until the placement is deleted, and then releases everything.
	Abandon DeletePolicy = "Abandon"
)
