package azure

import (
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
)

// Update is the update of the members of a run, in Azure's form: managedClusterUpdate.
type Update struct {
	Upgrade Upgrade `json:"upgrade"`
	// NodeImages is absent if nodes are not updated.
	NodeImages *NodeImageSelection `json:"nodeImageSelection,omitempty"`
}

// Upgrade is the type and the version of an upgrade, in Azure's form.
type Upgrade struct {
	Type              string `json:"type"`
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
}

// NodeImageSelection says how node images are chosen, in Azure's form.
type NodeImageSelection struct {
	Type     string             `json:"type"`
	Versions []NodeImageVersion `json:"customNodeImageVersions,omitempty"`
}

// NodeImageVersion names an image, in Azure's form.
type NodeImageVersion struct {
	Version string `json:"version"`
}

// ReadUpdate reads a managedClusterUpdate, which is JSON. Errors use the name for the input, and
// have the form described at [Read].
func ReadUpdate(r io.Reader, name string) (upgrade.Target, error) {
	d, err := parse(r, name)
	if err != nil {
		return upgrade.Target{}, err
	}
	return updateIn(d)
}

// UpdateOf reads a managedClusterUpdate from a part of a YAML document, like [StrategyOf] reads
// stages.
func UpdateOf(n *yaml.Node, file, path string) (upgrade.Target, error) {
	d := yamldoc.New(file)
	d.Open(n, path)
	return updateIn(d)
}

func updateIn(d *yamldoc.Doc) (upgrade.Target, error) {
	if d.IsEmpty() {
		return upgrade.Target{}, d.Err()
	}
	var t upgrade.Target
	d.Root().Object(fields{
		"upgrade":            func(v value) { readUpgrade(v, &t) },
		"nodeImageSelection": func(v value) { t.NodeImages = images(v) },
	}, "upgrade")
	d.Root().Check(t.Validate(nil).ToAggregate(), placeInUpdate)
	if err := d.Err(); err != nil {
		return upgrade.Target{}, err
	}
	return t, nil
}

func readUpgrade(v value, t *upgrade.Target) {
	v.Object(fields{
		"type": func(v value) {
			t.Type = yamldoc.OneOf(v, upgrade.Full, upgrade.ControlPlaneOnly, upgrade.NodeImageOnly)
		},
		"kubernetesVersion": func(v value) { t.KubernetesVersion = v.Str() },
	}, "type")
}

func images(v value) upgrade.NodeImages {
	var n upgrade.NodeImages
	v.Object(fields{
		"type": func(v value) { n.Selection = yamldoc.OneOf(v, upgrade.Latest, upgrade.Consistent, upgrade.Custom) },
		"customNodeImageVersions": func(v value) {
			v.Each(func(v value) {
				v.Object(fields{"version": func(v value) { n.Versions = append(n.Versions, v.Str()) }}, "version")
			})
		},
	}, "type")
	if n.Selection == upgrade.Consistent && len(n.Versions) > 0 {
		v.Place("customNodeImageVersions").Fail("goes with type Custom only")
	}
	return n
}

// placeInUpdate turns the path of a field of a target into the path in the source document.
func placeInUpdate(path string) string {
	switch {
	case path == "type", path == "kubernetesVersion":
		return "upgrade." + path
	case strings.HasPrefix(path, "nodeImageSelection.versions"):
		return "nodeImageSelection.customNodeImageVersions" + strings.TrimPrefix(path, "nodeImageSelection.versions")
	}
	return path
}

// UpdateForm returns a target in Azure's form. It omits the images that [upgrade.Resolve] chose
// for Consistent, because they belong to the status of a run. The error lists the problems of the
// target.
func UpdateForm(t upgrade.Target) (Update, error) {
	if errs := t.Validate(nil); len(errs) > 0 {
		return Update{}, fmt.Errorf("upgrade target: %w", errs.ToAggregate())
	}
	u := Update{Upgrade: Upgrade{Type: string(t.Type), KubernetesVersion: t.KubernetesVersion}}
	if t.Type == upgrade.ControlPlaneOnly || t.NodeImages.Selection == "" {
		return u, nil
	}
	u.NodeImages = &NodeImageSelection{Type: string(t.NodeImages.Selection)}
	if t.NodeImages.Selection == upgrade.Custom {
		u.NodeImages.Versions = versions(t.NodeImages.Versions)
	}
	return u, nil
}

func versions(names []string) []NodeImageVersion {
	var list []NodeImageVersion
	for _, v := range names {
		list = append(list, NodeImageVersion{Version: v})
	}
	return list
}
