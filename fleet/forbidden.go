package fleet

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

var errNeverPlaced = errors.New("an object that is never placed, see snapshot.Propagates and Config.Rules")

// forbidden is what the host does not have brought to any cluster. A nil one
// forbids nothing: so is what clusters have already looked for.
type forbidden struct {
	restrictions []placement.Restriction
	rules        snapshot.Rules
}

func (e *Engine) forbidden() *forbidden {
	return &forbidden{e.cfg.Restrictions, e.cfg.Rules}
}

// forPaths are the paths that no override may change.
func (f *forbidden) forPaths() []placement.Restriction {
	if f == nil {
		return nil
	}
	return f.restrictions
}

// refuse names the first object of a snapshot that is not placed any more: the
// host's rules may be younger than the snapshot.
func (f *forbidden) refuse(s *frozen) error {
	if f == nil {
		return nil
	}
	for _, item := range s.set.Items {
		if !f.rules.Allows(item.ID) {
			return fmt.Errorf("snapshot %s: Config.Rules do not let %s be placed: roll out another snapshot, or change the rules: %w",
				s.Name(), item.ID, backend.ErrPermanent)
		}
	}
	return nil
}

// judge is an error if overrides have made an object into one that is never placed.
func (f *forbidden) judge(obj *unstructured.Unstructured) error {
	if f == nil || f.rules.Propagates(obj) {
		return nil
	}
	return fmt.Errorf("overrides make it %w: %w", errNeverPlaced, backend.ErrPermanent)
}
