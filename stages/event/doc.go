// Package event has what happens in placements and runs, as values: every kind of it is one of
// the types here, with the fields that it fills.
//
// Events are stored in the order in which they happened, and followed from there. The JSON of
// an [Event] leaves out what does not apply. Texts are for people and may change; types and
// fields do not.
package event
