// Package peers measures package drift beside a library that compares JSON. It
// has a module of its own, so that nobody who uses Slipway gets that library.
package peers
