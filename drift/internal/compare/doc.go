// Package compare finds what differs between an object of the hub and that of a
// member. [Compile] turns the hub's object and the schema of its kind into a [Tree],
// once; [Tree.Compare] walks a member's object along it, often, and allocates nothing
// where nothing differs. What becomes of a [Finding], in which secrets are not hidden,
// is for package drift.
package compare
