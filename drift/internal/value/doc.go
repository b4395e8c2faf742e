// Package value defines the meaning of JSON values: which are the same number, quantity, time or text, what a
// server treats as absent, what identifies the items of a list, and how a value is written in a report. What
// depends on a type takes a field of package schema; nil is an unknown type.
package value
