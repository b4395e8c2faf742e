package stages

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MaxCapLimit is the largest limit of a cap.
const MaxCapLimit = 1_000_000

// Cap limits how many clusters may be in flight at the same time, over all runs whose strategies
// name it. It is a value: its methods return a new Cap and leave the receiver unchanged. A host
// stores one Cap for each name, writes it with compare-and-swap, and limits each run by the stored
// Cap, see [Input].Slots. Therefore a run that needs fewer slots saves its record before it
// releases slots, and a run that needs more receives slots before it uses them.
//
// A Cap is fair: runs that hold nothing get the next free slots first, in the order of their
// arrival. Beyond that it divides the slots so that no run has two more than another run that
// could use them.
type Cap struct {
	// Name is a DNS subdomain.
	Name string `json:"name"`
	// Limit is the maximum number of clusters in flight, from 0, which prevents every start, to
	// [MaxCapLimit].
	Limit int `json:"limit"`
	// Shares are the shares of the runs that hold or want slots, in the order of their
	// arrival.
	Shares []Share `json:"shares,omitempty"`
	// Turns is the last [Share].Turn that was assigned.
	Turns int64 `json:"turns,omitempty"`
}

// Share is the part of a [Cap] that a run holds.
type Share struct {
	// UID identifies the run, Run is its name.
	UID string `json:"uid"`
	Run string `json:"run"`
	// Epoch is the epoch of the host that made the last claim for the run.
	Epoch int64 `json:"epoch"`
	// Holds is the number of slots of the run, in use or not, and Wants the number that it
	// could use.
	Holds int `json:"holds"`
	Wants int `json:"wants"`
	// Turn orders the runs that hold nothing: the lowest is next.
	Turn int64 `json:"turn"`
}

// Claim is the demand of a run on a [Cap].
type Claim struct {
	UID   string
	Run   string
	Epoch int64
	// Uses is the number of clusters that the run has in flight according to its saved record, and
	// Wants is the number that it would have without the cap, see step.Ready.Wants.
	Uses, Wants int
}

// Share returns the share of a run, and false if it has none.
func (c Cap) Share(uid string) (Share, bool) {
	i := slices.IndexFunc(c.Shares, func(s Share) bool { return s.UID == uid })
	if i < 0 {
		return Share{}, false
	}
	return c.Shares[i], true
}

// Claim returns the cap after a claim of a run. The run gets the slots that it may have, and
// releases unused slots for which others wait. Claim is idempotent. It returns false and the
// unchanged cap if a host with a newer epoch has made a claim for the run.
//
// A run that uses more than it holds, for example because the cap is younger than the run,
// holds the slots that it uses. The limit may be exceeded until the run releases them.
func (c Cap) Claim(k Claim) (Cap, bool) {
	c.Shares = slices.Clone(c.Shares)
	i := slices.IndexFunc(c.Shares, func(s Share) bool { return s.UID == k.UID })
	if i < 0 {
		c.Turns++
		i = len(c.Shares)
		c.Shares = append(c.Shares, Share{UID: k.UID, Turn: c.Turns})
	}
	s := &c.Shares[i]
	if s.Epoch > k.Epoch {
		return c, false
	}
	had := s.Holds
	s.Holds = max(k.Uses, min(had, k.Wants, c.Slots(k.UID)))
	s.Run, s.Epoch, s.Wants = k.Run, k.Epoch, max(k.Wants, k.Uses)
	if s.Holds == 0 && had > 0 {
		c.Turns++
		s.Turn = c.Turns
	}
	return c.settled(), true
}

// Leave removes a run that has ended or was deleted. It has no effect on a cap without the run.
func (c Cap) Leave(uid string) Cap {
	c.Shares = slices.DeleteFunc(slices.Clone(c.Shares), func(s Share) bool { return s.UID == uid })
	return c.settled()
}

// Resize returns the cap with another limit. If runs hold more slots than the new limit, they keep
// the slots until they release them.
func (c Cap) Resize(limit int) Cap {
	c.Shares = slices.Clone(c.Shares)
	c.Limit = limit
	return c.settled()
}

// settled distributes the free slots, each to the run that holds the fewest, and to the lowest
// turn among equals. It drops the shares of runs that hold and want nothing.
func (c Cap) settled() Cap {
	c.Shares = slices.DeleteFunc(c.Shares, func(s Share) bool { return s.Holds == 0 && s.Wants == 0 })
	for free := c.Limit - c.Held(); free > 0; free-- {
		next := -1
		for i := range c.Shares {
			s := &c.Shares[i]
			if s.Holds < s.Wants && (next < 0 || s.precedes(&c.Shares[next])) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		c.Shares[next].Holds++
	}
	return c
}

func (s *Share) precedes(other *Share) bool {
	return cmp.Or(cmp.Compare(s.Holds, other.Holds), cmp.Compare(s.Turn, other.Turn)) < 0
}

// Held returns the number of slots that all runs together hold.
func (c Cap) Held() (n int) {
	for i := range c.Shares {
		n += c.Shares[i].Holds
	}
	return n
}

// Slots returns how many clusters a run may have in flight when it starts more. It is 0 if a run
// that holds nothing waits for a slot, unless the limit is 0. If another run has less than its fair
// share, Slots is at most the run's own fair share. Otherwise it is the Holds of the run's [Share].
// If a run has received slots since it last started clusters, it may use them once in any case: the
// host then passes Holds instead of Slots.
func (c Cap) Slots(uid string) int {
	own, ok := c.Share(uid)
	if !ok {
		return 0
	}
	fair := c.fair()
	short := false
	for i := range c.Shares {
		s := &c.Shares[i]
		if s.UID == uid {
			continue
		}
		if s.Holds == 0 && s.Wants > 0 && c.Limit > 0 {
			return 0
		}
		short = short || s.Holds < fair[i]
	}
	if short {
		i := slices.IndexFunc(c.Shares, func(s Share) bool { return s.UID == uid })
		return min(own.Holds, fair[i])
	}
	return own.Holds
}

// fair returns how many slots each run would have after a new distribution: the same number for
// each run that can use them. An indivisible rest remains with the runs that hold more, then
// goes by turn.
func (c Cap) fair() []int {
	out, left := make([]int, len(c.Shares)), c.Limit
	wants := func(i int) bool { return out[i] < c.Shares[i].Wants }
	order := make([]int, len(out))
	for i := range order {
		order[i] = i
	}
	for {
		order = slices.DeleteFunc(order, func(i int) bool { return !wants(i) })
		if len(order) == 0 || left < len(order) {
			break
		}
		each := left / len(order)
		for _, i := range order {
			n := min(each, c.Shares[i].Wants-out[i])
			out[i], left = out[i]+n, left-n
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := &c.Shares[a], &c.Shares[b]
		return cmp.Or(cmp.Compare(y.Holds-out[b], x.Holds-out[a]), cmp.Compare(x.Turn, y.Turn))
	})
	for _, i := range order[:min(left, len(order))] {
		out[i]++
	}
	return out
}

// InUse lists the runs that hold the cap, for example "5 of 5: run a 3, run b 2". It names at
// most five runs.
func (c Cap) InUse() string {
	const most = 5
	holders := slices.DeleteFunc(slices.Clone(c.Shares), func(s Share) bool { return s.Holds == 0 })
	slices.SortStableFunc(holders, func(a, b Share) int { return cmp.Compare(b.Holds, a.Holds) })
	var names []string
	for _, s := range holders[:min(most, len(holders))] {
		names = append(names, fmt.Sprintf("run %s %d", s.Run, s.Holds))
	}
	if n := len(holders) - most; n > 0 {
		names = append(names, fmt.Sprintf("and %d more", n))
	}
	if len(names) == 0 {
		return fmt.Sprintf("0 of %d", c.Limit)
	}
	return fmt.Sprintf("%d of %d: %s", c.Held(), c.Limit, strings.Join(names, ", "))
}

// Validate returns all problems of the cap as one error, or nil. The error wraps an aggregate
// of [field.Error] values.
func (c Cap) Validate() error {
	errs := validateCapName(field.NewPath("name"), c.Name)
	if c.Name == "" {
		errs = append(errs, field.Required(field.NewPath("name"), "a DNS subdomain (RFC 1123), for example database"))
	}
	if c.Limit < 0 || c.Limit > MaxCapLimit {
		errs = append(errs, field.Invalid(field.NewPath("limit"), c.Limit, fmt.Sprintf("must be from 0, which lets nothing start, to %d", MaxCapLimit)))
	}
	errs = append(errs, c.checkShares(field.NewPath("shares"))...)
	if len(errs) > 0 {
		return fmt.Errorf("cap %q: %w", c.Name, errs.ToAggregate())
	}
	return nil
}

func (c Cap) checkShares(at *field.Path) (errs field.ErrorList) {
	seen := map[string]bool{}
	for i, s := range c.Shares {
		if s.UID == "" || s.Run == "" || seen[s.UID] {
			errs = append(errs, field.Invalid(at.Index(i), s.UID, "must be one of a run, and the only one of it"))
		}
		if s.Holds < 0 || s.Wants < 0 || s.Turn < 0 || s.Turn > c.Turns || s.Epoch < 0 {
			errs = append(errs, field.Invalid(at.Index(i), s.Run, "no run can have it"))
		}
		seen[s.UID] = true
	}
	return errs
}
