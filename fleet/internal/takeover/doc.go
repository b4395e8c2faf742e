// Package takeover proves that an engine in a process of its own which is paused by SIGSTOP past its lease, and woken, or
// killed, does no harm to the one that takes its runs over, and that this happens within a lease. The tests of engines in
// one process stop calls; here the clock, the timers and what is on its way over a connection go on without the
// engine. It is nothing but tests.
//
// The store and the members live in the process of the test. A Server offers them over HTTP, on a unix socket as a rule,
// and a Client is all three of store, inventory and dialer in another process. The server reports every write request in
// the order in which they were made, and can make a request wait before it carries it out. There is no authentication
// and no encryption: any process that can open the socket may do everything.
package takeover
