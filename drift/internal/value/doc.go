// Package value defines the meaning of JSON values: which numbers, quantities, times or texts are
// equal, which values a server treats as absent, the identity of list items, and the form of a
// value in a report. A function that depends on a type takes a field of package schema; nil is an
// unknown type.
package value
