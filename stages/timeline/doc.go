// Package timeline draws a run over time: what each cluster was doing when, what its gates waited for and who decided,
// what checks measured, where windows kept clusters back, and when the run was stopped, resumed or rolled back.
//
// [New] makes the picture, a [Timeline], from a plan and the events of a run, as Engine.History of package fleet
// returns them. For a run that goes on, what is still to come is added from a forecast: see [Options]. [Simulated] makes
// the same picture of a simulation. A Timeline is plain data that a host may read itself; [SVG] and [Text] draw it.
//
// A run of few clusters has a lane for each. One of many has a lane for each group, which says how many of its clusters
// are in which phase; one of many groups has a lane for each stage.
//
// Everything here is a function of its arguments, and what is drawn is always bounded: an SVG in bytes, a text in columns.
// Names and messages are those of others, and are escaped or replaced where they cannot be drawn.
//
// Neighbours: package stages has the events, package simulate what would happen.
package timeline
