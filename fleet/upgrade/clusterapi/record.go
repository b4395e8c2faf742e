package clusterapi

import (
	"encoding/json"
	"fmt"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/upgrade"
)

const (
	// recordAnnotation holds the last change of an object, as JSON.
	recordAnnotation = "slipway.dev/upgrade"
	// deferAnnotation holds back the upgrade of a pool of a topology. holdAnnotation also holds back
	// the upgrades of the pools behind it. deferredByUs is our value of deferAnnotation.
	deferAnnotation = "topology.cluster.x-k8s.io/defer-upgrade"
	holdAnnotation  = "topology.cluster.x-k8s.io/hold-upgrade-sequence"
	deferredByUs    = "slipway.dev"
	// maxRecord bounds the record and leaves room for annotations of others, because all together may
	// have 256 KiB.
	maxRecord = 128 << 10
)

// record returns the last change of the cluster; zero if there is none.
func (s *seen) record() (upgrade.Change, error) { return recordIn(s.cluster) }

// recordIn returns the last change that was written to an object; zero if there is none.
func recordIn(obj tree) (upgrade.Change, error) {
	var change upgrade.Change
	value, ok := branch(obj, "metadata", "annotations")[recordAnnotation].(string)
	if !ok {
		return change, nil
	}
	if err := json.Unmarshal([]byte(value), &change); err != nil || change.ID == "" {
		return upgrade.Change{}, fmt.Errorf("metadata.annotations[%s] is no change that was written by this program: remove it: %w", recordAnnotation, backend.ErrPermanent)
	}
	return change, nil
}

func recordOf(change upgrade.Change) (string, error) {
	value, err := json.Marshal(change)
	if err != nil {
		return "", fmt.Errorf("change %s: %v: %w", change.ID, err, backend.ErrPermanent)
	}
	if len(value) > maxRecord {
		return "", fmt.Errorf("change %s takes %d bytes, more than the %d that are kept: %w", change.ID, len(value), maxRecord, backend.ErrPermanent)
	}
	return string(value), nil
}

// outranked returns an error if a newer change of the same placement was requested before.
func outranked(record, change upgrade.Change) error {
	if record.Placement == change.Placement && record.Epoch > change.Epoch {
		return fmt.Errorf("change %s has epoch %d, and epoch %d was here: %w", change.ID, change.Epoch, record.Epoch, backend.ErrFenced)
	}
	return nil
}
