// Package source reads what placements select on a hub, and reports when that changes, by one watch of metadata
// for each kind.
//
// It takes the right to get, list and watch every kind that can be selected and, in the namespaces that are
// selected, all kinds, and to list and watch CustomResourceDefinitions. What it may not read is an error and
// never left out.
package source
