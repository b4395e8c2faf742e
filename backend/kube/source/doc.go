// Package source reads the objects that placements select on a hub, and reports changes of them,
// by one watch of metadata for each kind.
//
// It needs the right to get, list and watch every kind that can be selected and, in the selected
// namespaces, all kinds, and to list and watch CustomResourceDefinitions. A missing right is an
// error; no object is silently left out.
package source
