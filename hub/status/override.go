package status

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// OverrideVersion is an override as it was at one time.
type OverrideVersion struct {
	// Index counts the versions of an override from 0, and none is used again.
	Index int `json:"index"`
	// Spec is the digest of the override's spec, Content that of what the engine
	// makes of it, by which snapshots know it.
	Spec    string `json:"spec"`
	Content string `json:"content"`
}

// OverrideSnapshotName is what a version of an override is called.
func OverrideSnapshotName(override string, index int) string {
	return override + "-" + strconv.Itoa(index)
}

// OverrideSnapshot is the object that shows a version of an override, which is the
// latest. It has no owner: it stays after the override as long as something that
// it changed may be brought back.
func OverrideSnapshot(override *unstructured.Unstructured, v OverrideVersion) *unstructured.Unstructured {
	in := api.ScopeOf(api.KeyOf(override))
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"overrideSpec": override.Object["spec"], "overrideHash": base64.StdEncoding.EncodeToString([]byte(v.Spec)),
	}}}
	u.SetGroupVersionKind(in.GVK(api.OverrideSnapshotKind))
	u.SetNamespace(override.GetNamespace())
	u.SetName(OverrideSnapshotName(override.GetName(), v.Index))
	u.SetLabels(map[string]string{
		api.LabelOverride: override.GetName(), api.LabelOverrideIndex: strconv.Itoa(v.Index), api.LabelLatest: "true",
	})
	return u
}

// VersionOf is what an override is known by, without an index.
func VersionOf(obj *unstructured.Unstructured, o placement.Override) (OverrideVersion, error) {
	spec, err := json.Marshal(obj.Object["spec"])
	if err != nil {
		return OverrideVersion{}, fmt.Errorf("%s %s: %w", obj.GetKind(), obj.GetName(), err)
	}
	content, _, err := placement.OverridesDigest([]placement.Override{o})
	return OverrideVersion{Spec: snapshot.Digest(spec), Content: content}, err
}
