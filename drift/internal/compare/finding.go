package compare

import (
	"github.com/slipway-dev/slipway/drift/internal/fieldpath"
	"github.com/slipway-dev/slipway/drift/schema"
)

// Class is the class of a finding. Of two findings at one path the lower class is more important.
type Class uint8

// The classes, with the same meaning as in package drift.
const (
	Changed Class = iota
	Missing
	Stale
	Order
	Unmanaged
)

// Finding is a difference between the object of the hub and the object of a member, with its
// unredacted values.
type Finding struct {
	Class Class
	// Path leads from the root of the object to the difference; an empty path is the object itself.
	Path []fieldpath.Step
	// Whole is the number of steps of the path to the list or map that is owned as a whole and
	// contains the difference, 0 if there is none.
	Whole int
	// Hub and member are the values; inHub and inMember report whether they exist.
	Hub, Member     any
	InHub, InMember bool
	// Field is the last field on the path, nil if unknown.
	Field *schema.Field
	Note  string
	// Secret marks a value that the walk knows to be secret.
	Secret bool
}

// Side returns the side to which the indexes of its path refer.
func (f *Finding) Side() fieldpath.Side {
	if f.InMember {
		return fieldpath.MemberSide
	}
	return fieldpath.HubSide
}

// findings are the results of a walk.
type findings struct {
	found []*Finding
	// counted counts the differences, except differences of order alone.
	counted  int
	warnings []string
}

func (out *findings) add(f *Finding) {
	if f.Class != Order {
		out.counted++
	}
	out.found = append(out.found, f)
}
