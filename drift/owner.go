package drift

import (
	"github.com/slipway-dev/slipway/drift/internal/compare"
	"github.com/slipway-dev/slipway/drift/internal/fieldpath"
	"github.com/slipway-dev/slipway/drift/internal/ownership"
	"github.com/slipway-dev/slipway/drift/internal/value"
)

// pass makes one report.
type pass struct {
	m      *Manifest
	live   any
	owners *ownership.Lookup
	// room is the buffer of the trail that is being processed.
	room fieldpath.Trail
}

// trail returns the trail of a path, valid until the next call.
func (p *pass) trail(path []fieldpath.Step) fieldpath.Trail {
	p.room = fieldpath.Follow(p.room[:0], path, p.m.tree.Hub, p.live)
	return p.room
}

// ownTrail returns the trail to the value whose owner made a difference: if something is missing
// inside a value that is owned as a whole, the owner of that value removed it.
func ownTrail(f *compare.Finding, t fieldpath.Trail) fieldpath.Trail {
	if !f.InMember && f.Whole > 0 {
		return t[:f.Whole]
	}
	return t
}

// manager returns the manager that last wrote the member's value at a trail.
func (p *pass) manager(t fieldpath.Trail) string {
	e, _ := p.owner(t)
	return e.Manager
}

// owner returns the entry of managedFields for the member's value.
func (p *pass) owner(t fieldpath.Trail) (ownership.Entry, bool) {
	if len(t) > 0 && t[len(t)-1].InMember == nil {
		return ownership.Entry{}, false
	}
	if p.owners == nil {
		p.owners = ownership.NewLookup(managedFields(p.live))
	}
	return p.owners.Owner(ownSteps(t))
}

// shownOwner returns the manager that wrote the member's value, nil if it is unknown.
func (p *pass) shownOwner(t fieldpath.Trail) *Owner {
	e, ok := p.owner(t)
	if !ok {
		return nil
	}
	return ownerOf(e)
}

func ownerOf(e ownership.Entry) *Owner {
	return &Owner{
		Manager: value.Printable(e.Manager, maxManager), Operation: value.Printable(e.Operation, maxManager),
		Subresource: value.Printable(e.Subresource, maxManager), Time: value.Printable(e.Time, maxManager),
	}
}

// maxManager is the maximum length of a manager's name on a server.
const maxManager = 128

func ownSteps(t fieldpath.Trail) []ownership.Step {
	steps := make([]ownership.Step, len(t))
	for i, s := range t {
		steps[i] = ownership.Step{Name: s.Name, Item: s.Item, Index: s.Member, Value: s.InMember}
	}
	return steps
}
