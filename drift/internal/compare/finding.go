package compare

import (
	"github.com/slipway-dev/slipway/drift/internal/fieldpath"
	"github.com/slipway-dev/slipway/drift/schema"
)

// Class is the sort of a finding. Of two findings at one path the lower one says more.
type Class uint8

// The classes, which mean what those of package drift do.
const (
	Changed Class = iota
	Missing
	Stale
	Order
	Unmanaged
)

// Finding is a difference between the object of the hub and that of a member, with
// its values as they are: what is secret in it is not hidden.
type Finding struct {
	Class Class
	// Path leads from the root of the object to the difference; empty is the
	// object itself.
	Path []fieldpath.Step
	// Whole is how many steps of the path lead to the list or map that is owned as a
	// whole and that the difference is inside of, 0 where it is in none.
	Whole int
	// Hub and member are the values; inHub and inMember report whether there is one.
	Hub, Member     any
	InHub, InMember bool
	// Field is what is known of the last field on the path, nil for nothing.
	Field *schema.Field
	Note  string
	// Secret marks a value that must not be shown, as far as the walk knows.
	Secret bool
}

// Side is where the indexes of its path count.
func (f *Finding) Side() fieldpath.Side {
	if f.InMember {
		return fieldpath.MemberSide
	}
	return fieldpath.HubSide
}
