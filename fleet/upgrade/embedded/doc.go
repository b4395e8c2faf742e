// Package embedded is a provider of upgrades in memory, for tests and examples. Its clusters take
// time, fail and become unavailable as their state says.
//
// The whole environment is a [State], a value that encodes as JSON. [New] creates a provider from
// it, [Provider.Edit] changes it during use, and [Provider.State] returns a copy, so that a program
// can save it and continue from it later.
//
// Nothing runs in the background: changes that time brings are computed by the clock when the state
// is read. Under testing/synctest, time.Now is that clock.
package embedded
