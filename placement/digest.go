package placement

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// OverridesDigest returns the sha256 of the overrides in hex and the canonical JSON that it
// covers, which [DecodeOverrides] reads. Neither depends on the order of the overrides, of their
// selectors, or of the keys and blanks of their values. An empty list has no digest and no JSON.
func OverridesDigest(overrides []Override) (string, []byte, error) {
	if len(overrides) == 0 {
		return "", nil, nil
	}
	if err := validateFrozen(overrides); err != nil {
		return "", nil, err
	}
	sorted := sortOverrides(overrides)
	for i, o := range sorted {
		c, err := canonical(o)
		if err != nil {
			return "", nil, fmt.Errorf("override %s: %w", o, err)
		}
		sorted[i] = c
	}
	b, err := json.Marshal(sorted)
	if err != nil {
		return "", nil, errors.New("the overrides have no JSON form")
	}
	return hexSum(b), b, nil
}

// DecodeOverrides reads the JSON of [OverridesDigest]. Unknown fields and invalid overrides are
// errors; empty data is an empty list. The caller must check the digest.
func DecodeOverrides(data []byte) ([]Override, error) {
	if len(data) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var overrides []Override
	if err := d.Decode(&overrides); err != nil {
		return nil, fmt.Errorf("overrides: must be a JSON list of overrides: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("overrides: something follows the JSON list")
	}
	return overrides, validateFrozen(overrides)
}

// canonical returns a copy of the override in its canonical form.
func canonical(o Override) (Override, error) {
	o.Selectors = slices.Clone(o.Selectors)
	slices.SortFunc(o.Selectors, func(a, b ObjectSelector) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version),
			cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	o.Rules = slices.Clone(o.Rules)
	for i := range o.Rules {
		patches, err := canonicalPatches(o.Rules[i].Patches)
		if err != nil {
			return o, fmt.Errorf("overrideRules[%d]: %w", i, err)
		}
		o.Rules[i].Patches = patches
		o.Rules[i].Type = cmp.Or(o.Rules[i].Type, JSONPatch)
		if s := o.Rules[i].ClusterSelector; s != nil && len(s.Terms) == 0 {
			o.Rules[i].ClusterSelector = &ClusterSelector{Terms: []ClusterTerm{}}
		}
	}
	return o, nil
}

func canonicalPatches(patches []Patch) ([]Patch, error) {
	out := slices.Clone(patches)
	for i := range out {
		if len(out[i].Value) == 0 {
			continue
		}
		tree, err := decodeNumbers(out[i].Value)
		if err != nil {
			return nil, fmt.Errorf("jsonPatchOverrides[%d]: value: %w", i, err)
		}
		if out[i].Value, err = json.Marshal(tree); err != nil {
			return nil, fmt.Errorf("jsonPatchOverrides[%d]: value: has no JSON form", i)
		}
	}
	return out, nil
}
