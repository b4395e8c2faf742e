package simulate

import (
	"slices"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages/step"
)

// decision completes a decision with the open request for its stage and group. Without an open
// request it stays incomplete, and the run refuses it.
func (s *simulation) decision(d approval.Decision) *approval.Decision {
	if d.Binding.When == "" {
		d.Binding.When = approval.After
	}
	if r, ok := s.request(d.Binding); ok {
		d.Binding = r.Binding
	}
	d.At = s.time()
	return &d
}

// request returns the open request of a stage and a group. If the only open request of a stage
// belongs to a group, the group may be omitted.
func (s *simulation) request(b approval.Binding) (approval.Request, bool) {
	open := slices.DeleteFunc(step.Requests(s.p, &s.run), func(r approval.Request) bool { return r.Stage != b.Stage })
	exact := slices.IndexFunc(open, func(r approval.Request) bool { return r.Group == b.Group })
	switch {
	case exact >= 0:
		return open[exact], true
	case b.Group == "" && len(open) == 1:
		return open[0], true
	default:
		return approval.Request{}, false
	}
}
