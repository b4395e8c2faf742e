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

// Cap bounds how many clusters are in flight of all runs whose strategies name it, together. It is a value:
// its methods return another one and change nothing. A host stores one for each name, writes it with a
// compare-and-swap, and lets a run have as many clusters in flight as the Cap that was written says, see
// [Input].Slots; so a run saves first that it uses less and gives back then, and is given more first and uses
// it then.
//
// It is fair: runs that hold nothing get the next free slots first, in the order in which they came; beyond
// that, slots are divided so that no run has two more than another that could use them.
type Cap struct {
	// Name is a DNS subdomain.
	Name string `json:"name"`
	// Limit is how many clusters may be in flight, from 0, which lets nothing more
	// start, to [MaxCapLimit].
	Limit int `json:"limit"`
	// Shares are those of the runs that hold something or want to, in the order in
	// which they came.
	Shares []Share `json:"shares,omitempty"`
	// Turns counts the turns that were given out.
	Turns int64 `json:"turns,omitempty"`
}

// Share is the part of a [Cap] that a run holds.
type Share struct {
	// UID identifies the run, Run is its name.
	UID string `json:"uid"`
	Run string `json:"run"`
	// Epoch is that of the host which made the last claim for it.
	Epoch int64 `json:"epoch"`
	// Holds is how many slots the run has, in use or not, Wants how many it could use.
	Holds int `json:"holds"`
	Wants int `json:"wants"`
	// Turn orders those that hold nothing: the lowest is next.
	Turn int64 `json:"turn"`
}

// Claim is the demand of a run on a [Cap].
type Claim struct {
	UID   string
	Run   string
	Epoch int64
	// Uses is how many clusters it has in flight, by the record that was saved, Wants
	// how many it would have, see [Ready].Wants.
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

// Claim returns the cap after a demand: the run gets what it may have, and gives back what it does not use
// and others wait for. It is idempotent. It returns false and the unchanged cap if a newer epoch has made a
// claim for the run.
//
// A run that uses more than it holds, as when the cap is younger than the run, holds what it uses; the limit
// may be exceeded by that until the run gives it back.
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

// Resize returns the cap with another limit. Runs that hold more keep it until
// they give it back.
func (c Cap) Resize(limit int) Cap {
	c.Shares = slices.Clone(c.Shares)
	c.Limit = limit
	return c.settled()
}

// settled distributes the free slots, each to the run that holds least, and among those by turn. It drops the
// shares of runs that hold and want nothing.
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

// Held returns how many slots are held by all runs.
func (c Cap) Held() (n int) {
	for i := range c.Shares {
		n += c.Shares[i].Holds
	}
	return n
}

// Slots returns how many clusters a run may have in flight where it starts more.
// It is less than what the run holds while others wait for what is theirs: all of
// it, while one waits that holds nothing, and else what is beyond a fair share.
// What the run was given since it started clusters last it may use first: a host
// takes Holds for that one time.
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

// fair returns how many slots each run would have if all were distributed again: equally many for each run
// that can use them. An indivisible rest stays with the runs that hold more, and else goes by turn.
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

// InUse returns which runs hold the cap, for example "5 of 5: run a 3, run b 2". At most five runs are named.
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

// Validate returns everything that is wrong with the cap as one error; nil when
// nothing is. The error wraps an aggregate of [field.Error] values.
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
