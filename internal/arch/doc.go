// Package arch answers whether the packages of this module depend on one
// another, and on the world, only in the directions that ARCHITECTURE.md
// draws.
//
// It has no code of its own: its tests parse every Go file of the module,
// whatever its build constraints, and fail with file and line where a rule is
// broken. A new package needs a row in the table of areas.
package arch
