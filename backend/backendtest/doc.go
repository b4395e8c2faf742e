// Package backendtest proves that a backend does what package backend asks
// for. A backend's own test is one line for each interface, as the example shows.
//
// [CheckStore], [CheckConn], [CheckInventory] and [CheckDialer] do the same
// without the testing package, for a host that checks an installation. Every
// case names the sentence of the contract that it proves, and an error says
// which of them do not hold.
package backendtest
