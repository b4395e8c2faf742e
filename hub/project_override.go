package hub

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// overrideVersion is an override as it was at one time.
type overrideVersion struct {
	// Index counts the versions of an override from 0, and none is used again.
	Index int `json:"index"`
	// Spec is the digest of the override's spec, Content that of what the engine
	// makes of it, by which snapshots know it.
	Spec    string `json:"spec"`
	Content string `json:"content"`
}

// overrideSnapshotName is what a version of an override is called.
func overrideSnapshotName(override string, index int) string {
	return override + "-" + strconv.Itoa(index)
}

// overrideSnapshot is the object that shows a version of an override, which is the
// latest. It has no owner: it stays after the override as long as something that
// it changed may be brought back.
func overrideSnapshot(override *unstructured.Unstructured, v overrideVersion) *unstructured.Unstructured {
	in := scopeOf(keyOf(override))
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"overrideSpec": override.Object["spec"], "overrideHash": base64.StdEncoding.EncodeToString([]byte(v.Spec)),
	}}}
	u.SetGroupVersionKind(in.gvk(overrideSnapshotKind))
	u.SetNamespace(override.GetNamespace())
	u.SetName(overrideSnapshotName(override.GetName(), v.Index))
	u.SetLabels(map[string]string{
		labelOverride: override.GetName(), labelOverrideIndex: strconv.Itoa(v.Index), labelLatest: "true",
	})
	return u
}

// versionOf is what an override is known by, without an index.
func versionOf(obj *unstructured.Unstructured, o placement.Override) (overrideVersion, error) {
	spec, err := json.Marshal(obj.Object["spec"])
	if err != nil {
		return overrideVersion{}, fmt.Errorf("%s %s: %w", obj.GetKind(), obj.GetName(), err)
	}
	content, _, err := placement.OverridesDigest([]placement.Override{o})
	return overrideVersion{Spec: snapshot.Digest(spec), Content: content}, err
}
