// Package timeline draws a run over time: the state of each cluster, the waits of its gates and
// their approvers, the measurements of checks, closed windows, and the times at which the run
// was stopped, resumed or rolled back.
//
// [New] makes a [Timeline] from a plan and the events of a run, as RunHandle.History of package
// fleet returns them. For an unfinished run, a forecast supplies the future: see [Options].
// [Simulated] makes the same picture of a simulation. A Timeline is plain data that a host may
// read itself; [SVG] and [Text] draw it.
//
// A run with few clusters has a lane for each cluster. A run with many clusters has a lane for
// each group, with the number of clusters in each phase, and a run with many groups has a lane
// for each stage.
//
// Every function depends on its arguments only, and every drawing is bounded: an SVG in bytes,
// a text in columns. Names and messages come from others, and are escaped or replaced if they
// cannot be drawn.
//
// Related packages: stages defines the events, and simulate computes a future run.
package timeline
