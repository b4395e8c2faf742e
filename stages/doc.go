// Package stages answers WHEN: in which order and how fast a change reaches
// the clusters of a fleet.
package stages
