// Package value knows what values of JSON mean: which are the same number,
// quantity, time or text, what a server takes for absent, what tells the items of
// a list apart, and how a value is written in a report. What depends on a type is
// asked with one of package schema; nil is a type that is not known.
package value
