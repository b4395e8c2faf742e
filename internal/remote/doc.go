// Package remote has the tests of engines in processes of their own that are paused or killed. It is nothing but tests:
// the store and the members live in the process of the test, and the other files let the engines share them.
//
// A Server offers any store, inventory and dialer over HTTP, on a unix socket as a rule. A Client is all three of them
// in another process. The server reports every write request in the order in which they were made, and can make a
// request wait before it carries it out. There is no authentication and no encryption: any process that can open the
// socket may do everything.
package remote
