// Package embedded is a provider of upgrades in memory, for tests and examples: its
// clusters take their time, fail and go away as they are told.
//
// All there is is a [State], a value that encodes as JSON. [New] makes a provider of
// it, [Provider.Edit] changes it while it is used, and [Provider.State] returns a copy,
// so that a program that ends can keep it and go on where it was.
//
// Nothing runs in the background: whatever happens with time, has happened by the clock
// when it is read. Under testing/synctest, time.Now is that clock.
package embedded
