// Package peers measures package drift beside a library that compares JSON. It
// has a module of its own, so that Slipway does not depend on that library.
package peers
