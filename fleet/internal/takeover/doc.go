// Package takeover tests two engines in separate processes, and contains only tests. They prove
// that an engine does no harm to its successor after it was paused with SIGSTOP past its lease and
// woken, or killed, and that the successor takes its runs over within a lease. The tests of engines
// in one process stop calls; here the clock, the timers and the data in transit on connections
// continue without the engine.
//
// The store and the members live in the process of the test. A Server offers them over HTTP,
// usually on a unix socket. A Client is the store, the inventory and the dialer of another process.
// The server reports every write request in order, and can delay a request before it carries it
// out. There is no authentication and no encryption: every process that can open the socket has
// full access.
package takeover
