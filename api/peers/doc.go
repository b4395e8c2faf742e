// Package peers compares the types below api with those of KubeFleet's own Go module: it is a module
// of its own, so an importer of Slipway does not get KubeFleet and its requirements.
package peers
