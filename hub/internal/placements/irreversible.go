package placements

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/status"
)

// markSnapshots gives the engine the marks that stand as labels on the objects of
// snapshots, and returns the indexes of those that are marked then.
func (r *Reconciler) markSnapshots(ctx context.Context, k api.Key, obj *unstructured.Unstructured, have map[string]*metav1.PartialObjectMetadata, view *fleet.PlacementView) (marked []int, err error) {
	name := kubefleet.EngineName(k.Namespace, k.Name)
	before := view.Irreversible()
	marked = before
	for _, snap := range view.Snapshots() {
		master := have[status.MasterName(k.Name, snap.Index)]
		if !shows(master, obj, view.Tag(snap.Digest)) {
			continue
		}
		switch label := master.Labels[api.LabelIrreversible]; markAsked(label, slices.Contains(before, snap.Index)) {
		case markSet:
			err = r.Engine.SetIrreversible(ctx, name, snap.Index, true, markedBy(master))
			marked = append(slices.Clip(marked), snap.Index)
		case markTaken:
			err = r.Engine.SetIrreversible(ctx, name, snap.Index, false, markedBy(master))
			marked = slices.DeleteFunc(slices.Clone(marked), func(index int) bool { return index == snap.Index })
		case markWrong:
			r.Recorder.Warning(obj, "InvalidLabel", "label %s of %s is %q: it must be true or false, and changes nothing", api.LabelIrreversible, master.Name, label)
			continue
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		r.Recorder.Normal(obj, "SnapshotMarked", "snapshot %d: %s is %s", snap.Index, api.LabelIrreversible, master.Labels[api.LabelIrreversible])
	}
	return marked, nil
}

// markChange is what a label asks for.
type markChange int

const (
	markKept markChange = iota
	markSet
	markTaken
	markWrong
)

// markAsked is what the label of a snapshot asks for, which is marked or not. A label
// that is missing asks for nothing.
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

// markedBy is what the engine tells of who marked a snapshot: the API server does
// not say who gave a label.
func markedBy(master *metav1.PartialObjectMetadata) string {
	return "label " + api.LabelIrreversible + " of " + master.Name
}
