// Package guard stands between the engine and the plug-ins of its host, and the texts that come from
// outside. It answers how a call of foreign code ends: with a value, with an error, or left behind.
//
// A plug-in may panic or hang without taking the engine along. [Call], [List] and [Stream] give a call a
// deadline and run it in a goroutine of its own; a call that ignores the end of its context is abandoned,
// and further calls for the same key fail at once until it returns. [Store] only adds deadlines and makes
// a panic an error: a store is trusted to return when its context ends.
//
// The error of a panic is [backend.ErrPermanent]. It has the value of the panic, which may be a secret, only
// where that is an error of the Go runtime. All functions are safe for concurrent use.
package guard
