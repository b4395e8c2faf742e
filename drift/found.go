package drift

import "github.com/slipway-dev/slipway/drift/schema"

// found is a difference as the walk meets it, before it is shown to anybody.
type found struct {
	class Class
	// path leads from the root of the object to the difference; empty is the
	// object itself.
	path []step
	// hub and member are the values; inHub and inMember tell whether there is one.
	hub, member     any
	inHub, inMember bool
	// field is what is known of the last field on the path, nil for nothing.
	field *schema.Field
	note  string
	// secret marks a value that must not be shown, as far as the walk knows.
	secret bool
}

// step is one level of a path: a field of a map, or an item of a list.
type step struct {
	// name is the key in a map. It is empty where item is true.
	name string
	item bool
	// hub and member are the indexes of an item, -1 on the side that lacks it.
	hub, member int
	// keys tell an item of a keyed list apart, in the order of the schema; of a
	// set, one key without a name. Nil is an item by its index.
	keys []keyValue
}

// keyValue is a key of an item.
type keyValue struct {
	name  string
	value any
}
