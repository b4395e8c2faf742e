package approval

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const longestExpiry = 365 * 24 * time.Hour

// Validate returns nil, or an error that lists all problems of the policy with the paths of their
// fields.
func (p Policy) Validate() error {
	if err := p.Problems(nil).ToAggregate(); err != nil {
		return fmt.Errorf("approval: policy: %w", err)
	}
	return nil
}

// Problems returns all problems of the policy, with field paths below at; nil is the root.
func (p Policy) Problems(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p.Expires.Duration < 0 || p.Expires.Duration > longestExpiry {
		errs = append(errs, field.Invalid(at.Child("expires"), p.Expires.Duration.String(), "must be between 0, for ever, and 365 days"))
	}
	seen := map[string]bool{}
	for i, q := range p.Quorums {
		at := at.Child("quorums").Index(i)
		errs = append(errs, q.problems(at)...)
		if seen[q.Group] {
			errs = append(errs, field.Duplicate(at.Child("group"), q.Group))
		}
		seen[q.Group] = true
	}
	return errs
}

func (q Quorum) problems(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if reason := unreadable(q.Group); reason != "" {
		errs = append(errs, field.Invalid(at.Child("group"), q.Group, reason))
	}
	if q.Count < 1 {
		errs = append(errs, field.Invalid(at.Child("count"), q.Count, "must be at least 1"))
	}
	return errs
}
