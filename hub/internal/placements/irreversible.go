package placements

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/status"
)

// markSnapshots passes the irreversible labels of snapshot objects to the engine, and returns the
// indexes of the objects that are marked afterwards. If an object shows several snapshots, the
// first one is marked: a rollback past the object is a rollback past its first snapshot.
func (p *projection) markSnapshots(ctx context.Context, k api.Key, obj *unstructured.Unstructured, have map[string]*metav1.PartialObjectMetadata, view *fleet.PlacementView) (marked []int, err error) {
	name := kubefleet.EngineName(k.Namespace, k.Name)
	before := view.Irreversible()
	for _, snap := range shownSnapshots(view) {
		var those []int
		for _, one := range snap.all {
			if slices.Contains(before, one.Index) {
				those = append(those, one.Index)
			}
		}
		now := len(those) > 0
		if master := have[status.MasterName(k.Name, snap.ObjectsIndex())]; snap.isShownBy(master, obj) {
			if now, err = p.markSnapshot(ctx, name, obj, &snap, those, master); err != nil {
				return nil, err
			}
		}
		if now {
			marked = append(marked, snap.ObjectsIndex())
		}
	}
	return marked, nil
}

// markSnapshot carries out the label of the object that shows the snapshots of snap, and reports
// whether one of them is marked afterwards. The parameter those has the indexes that are marked
// now.
func (p *projection) markSnapshot(
	ctx context.Context, name string, obj *unstructured.Unstructured, snap *shownSnapshot, those []int, master *metav1.PartialObjectMetadata,
) (marked bool, err error) {
	label := master.Labels[api.LabelIrreversible]
	asked := markAsked(label, len(those) > 0)
	switch asked {
	case markSet:
		those = []int{snap.all[0].Index}
	case markTaken:
	case markWrong:
		p.Recorder.Warning(obj, api.EventInvalidLabel, "label %s of %s is %q: it must be true or false, and changes nothing", api.LabelIrreversible, master.Name, label)
		return len(those) > 0, nil
	default:
		return len(those) > 0, nil
	}
	for _, index := range those {
		if err := p.engine.Placement(name).SetIrreversible(ctx, index, asked == markSet, markedBy(master)); err != nil {
			return false, err
		}
	}
	p.Recorder.Normal(obj, api.EventSnapshotMarked, "snapshot %d: %s is %s", snap.ObjectsIndex(), api.LabelIrreversible, label)
	return asked == markSet, nil
}

// markChange is the change that a label requests.
type markChange int

const (
	markKept markChange = iota
	markSet
	markTaken
	markWrong
)

// markAsked returns the change that the label of a snapshot requests, given whether the snapshot is
// marked. A missing label requests none.
func markAsked(label string, marked bool) markChange {
	switch {
	case label == "true" && !marked:
		return markSet
	case label == "false" && marked:
		return markTaken
	case label != "" && label != "true" && label != "false":
		return markWrong
	default:
		return markKept
	}
}

// markedBy returns the author of a mark for the engine's record. It names the label, because the
// API server does not record the author of a label.
func markedBy(master *metav1.PartialObjectMetadata) string {
	return "label " + api.LabelIrreversible + " of " + master.Name
}
