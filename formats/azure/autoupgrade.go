package azure

import (
	"io"
	"regexp"

	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
)

// AutoUpgradeProfile is a profile that creates update runs when a new version is available.
type AutoUpgradeProfile struct {
	// Name is empty if the document has none, because in Azure's API the name is a part of the
	// address.
	Name    string
	Profile upgrade.Profile
	// UpdateStrategyID is the resource id of the stored strategy, or its name; empty is [OneByOne].
	UpdateStrategyID string
	Disabled         bool
}

// profileName matches the names that Azure allows for a profile.
var profileName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// ReadAutoUpgradeProfile reads an AutoUpgradeProfile, which is JSON, in version
// 2026-06-02-preview of Azure's REST API: the settings are under properties. It ignores fields
// that only Azure writes, such as the status of the last trigger. Errors use the name for the
// input, and have the form described at [Read].
func ReadAutoUpgradeProfile(r io.Reader, name string) (AutoUpgradeProfile, error) {
	d, err := parse(r, name)
	if err != nil {
		return AutoUpgradeProfile{}, err
	}
	if d.IsEmpty() {
		return AutoUpgradeProfile{}, d.Err()
	}
	var p AutoUpgradeProfile
	ignored := func(value) {}
	d.Root().Object(fields{
		"name": func(v value) {
			p.Name = v.Str()
			if !profileName.MatchString(p.Name) || len(p.Name) > MaxName {
				v.Fail("must have at most %d lower case letters, digits and hyphens, with a letter or a digit at both ends", MaxName)
			}
		},
		"id": ignored, "type": ignored, "eTag": ignored, "systemData": ignored,
		"properties": func(v value) {
			v.Object(fields{
				"channel": func(v value) {
					p.Profile.Channel = yamldoc.OneOf(v, upgrade.Stable, upgrade.Rapid, upgrade.NodeImage, upgrade.TargetKubernetesVersion, upgrade.SecurityPatch)
				},
				"targetKubernetesVersion": func(v value) { p.Profile.KubernetesVersion = v.Str() },
				"longTermSupport":         func(v value) { p.Profile.LongTermSupport = v.Boolean() },
				"disabled":                func(v value) { p.Disabled = v.Boolean() },
				"updateStrategyId":        func(v value) { p.UpdateStrategyID = v.Str() },
				"nodeImageSelection": func(v value) {
					v.Object(fields{"type": func(v value) { p.Profile.NodeImages = yamldoc.OneOf(v, upgrade.Latest, upgrade.Consistent) }}, "type")
				},
				"provisioningState": ignored, "autoUpgradeProfileStatus": ignored,
			}, "channel")
		},
	}, "properties")
	d.Root().Check(p.Profile.Validate(nil).ToAggregate(), func(path string) string { return "properties." + path })
	if err := d.Err(); err != nil {
		return AutoUpgradeProfile{}, err
	}
	return p, nil
}
