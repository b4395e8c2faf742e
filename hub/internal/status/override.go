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

// OverrideVersion is one version of an override.
type OverrideVersion struct {
	// Index counts the versions of an override from 0. An index is never reused.
	Index int `json:"index"`
	// Spec is the digest of the override's spec. Content is the digest of the override as the
	// engine reads it; snapshots refer to it by this digest.
	Spec    string `json:"spec"`
	Content string `json:"content"`
}

// OverrideSnapshotName returns the name of the object that shows a version of an override.
func OverrideSnapshotName(override string, index int) string {
	return override + "-" + strconv.Itoa(index)
}

// OverrideSnapshot returns the object that shows the latest version of an override. It has no
// owner, because it must outlive the override while a rollback may need it.
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

// VersionOf returns the version of an override, without its index.
func VersionOf(obj *unstructured.Unstructured, o placement.Override) (OverrideVersion, error) {
	spec, err := json.Marshal(obj.Object["spec"])
	if err != nil {
		return OverrideVersion{}, fmt.Errorf("%s %s: %w", obj.GetKind(), obj.GetName(), err)
	}
	content, _, err := placement.OverridesDigest([]placement.Override{o})
	return OverrideVersion{Spec: snapshot.Digest(spec), Content: content}, err
}
