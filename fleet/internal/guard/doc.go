// Package guard stands between the engine and the plug-ins of its host, and bounds texts from
// outside. It defines how a call of foreign code ends: with a value, with an error, or left behind.
//
// A plug-in may panic or hang without stopping the engine. [Call], [List] and [Stream] run a call
// in its own goroutine; [Call] and [List] add a deadline. A call that ignores the end of its
// context is left behind, and further calls for the same key fail at once until it returns. [Store]
// only adds deadlines and turns a panic into an error, because a store is trusted to return when
// its context ends.
//
// The error of a panic is [backend.ErrPermanent]. It contains the value of the panic only if that
// is an error of the Go runtime, because other values may be secret. All functions are safe for
// concurrent use.
package guard
