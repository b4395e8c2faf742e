// Package backendtest proves that a backend keeps the contracts of package backend. A backend tests
// itself by one line for each interface, as ExampleTestStore shows.
//
// [CheckStore], [CheckConn], [CheckInventory] and [CheckDialer] do the same without the testing
// package, for a host that checks an installation. Every case names the sentence of the contract
// that it proves, and an error names the violated sentences.
package backendtest
