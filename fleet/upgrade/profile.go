package upgrade

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// Channel selects the releases that a [Profile] follows.
type Channel string

// Channels of upgrade profiles. Names and meanings are taken from Azure; N is the newest minor
// version that is not a preview.
const (
	// Rapid is the newest patch of N.
	Rapid Channel = "Rapid"
	// Stable is the newest patch of the minor version before N.
	Stable Channel = "Stable"
	// TargetKubernetesVersion is the newest patch of a given minor version.
	TargetKubernetesVersion Channel = "TargetKubernetesVersion"
	// NodeImage is the newest node images; it leaves all versions unchanged.
	NodeImage Channel = "NodeImage"
	// SecurityPatch is the node images with the newest security patches; it leaves all versions
	// unchanged.
	SecurityPatch Channel = "SecurityPatch"
)

// supportedMinors is the number of minor versions before N that are supported without long-term
// support.
const supportedMinors = 2

// Profile selects the releases that clusters are upgraded to once they are available, without a
// request by a person.
type Profile struct {
	Channel Channel `json:"channel"`
	// KubernetesVersion is the minor version, such as 1.30, for the channel TargetKubernetesVersion;
	// it is empty for other channels.
	KubernetesVersion string `json:"targetKubernetesVersion,omitempty"`
	// LongTermSupport continues with patches of a minor version older than N-2 if the catalog has them
	// for long-term support. It is only for TargetKubernetesVersion.
	LongTermSupport bool `json:"longTermSupport,omitempty"`
	// NodeImages is Latest if empty, or Consistent. It must be empty for SecurityPatch, whose images
	// the catalog names.
	NodeImages Selection `json:"nodeImageSelection,omitempty"`
}

// Release is a version of Kubernetes in a catalog.
type Release struct {
	// Version has its patch, such as 1.30.2.
	Version string `json:"version"`
	// Preview releases are not followed.
	Preview bool `json:"preview,omitempty"`
	// LongTermSupport reports that the release is only for clusters with long-term support.
	LongTermSupport bool `json:"longTermSupport,omitempty"`
}

// Catalog lists the releases of a provider, independent of clusters. Its methods may be called
// concurrently.
type Catalog interface {
	// Releases returns the versions of Kubernetes in any order. It is called only for the channels of
	// versions.
	Releases(ctx context.Context) ([]Release, error)
	// SecurityPatches returns the images with the newest security patches, one for each family of
	// nodes. It is called only for SecurityPatch.
	SecurityPatches(ctx context.Context) ([]string, error)
}

// Validate returns all errors of p, with paths below path.
func (p Profile) Validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	channels := []Channel{Stable, Rapid, NodeImage, TargetKubernetesVersion, SecurityPatch}
	if !slices.Contains(channels, p.Channel) {
		errs = append(errs, field.NotSupported(path.Child("channel"), p.Channel, channels))
	}
	at := path.Child("targetKubernetesVersion")
	switch {
	case p.Channel != TargetKubernetesVersion && p.KubernetesVersion != "":
		errs = append(errs, field.Forbidden(at, "goes with channel TargetKubernetesVersion only"))
	case p.Channel == TargetKubernetesVersion && p.KubernetesVersion == "":
		errs = append(errs, field.Required(at, "channel TargetKubernetesVersion needs a minor version, as 1.30"))
	case p.Channel == TargetKubernetesVersion && minorOf(p.KubernetesVersion) == nil:
		errs = append(errs, field.Invalid(at, p.KubernetesVersion, "must be a minor version without a patch, as 1.30"))
	}
	if p.LongTermSupport && p.Channel != TargetKubernetesVersion {
		errs = append(errs, field.Forbidden(path.Child("longTermSupport"), "goes with channel TargetKubernetesVersion only"))
	}
	at = path.Child("nodeImageSelection")
	switch {
	case p.Channel == SecurityPatch && p.NodeImages != "":
		errs = append(errs, field.Forbidden(at, "channel SecurityPatch takes the images that have the patches"))
	case p.NodeImages != "" && p.NodeImages != Latest && p.NodeImages != Consistent:
		errs = append(errs, field.NotSupported(at, p.NodeImages, []Selection{Latest, Consistent}))
	}
	return errs
}

// minorOf parses a version without a patch, and returns nil if text is not one.
func minorOf(text string) *version.Version {
	v, err := version.ParseMajorMinor(text)
	if err != nil || fmt.Sprintf("%d.%d", v.Major(), v.Minor()) != text {
		return nil
	}
	return v
}

// Target returns the target for clusters, by name, at this moment. Under a channel of versions it
// is the channel's newest patch. If the oldest control plane is more than one minor version behind,
// the target is the newest patch of the minor version after that control plane's, and later runs
// continue from there. patches are the catalog's images, for SecurityPatch. A target of Consistent
// images must still be resolved. The error names the release that the catalog lacks.
func (p Profile) Target(releases []Release, patches []string, clusters map[string]Cluster) (Target, error) {
	if errs := p.Validate(nil); len(errs) > 0 {
		return Target{}, fmt.Errorf("upgrade profile: %w", errs.ToAggregate())
	}
	switch p.Channel {
	case NodeImage:
		return Target{Type: NodeImageOnly, NodeImages: NodeImages{Selection: p.NodeImages}}, nil
	case Stable, Rapid, TargetKubernetesVersion:
	case SecurityPatch:
		if len(patches) == 0 {
			return Target{}, errors.New("upgrade profile: channel SecurityPatch: the catalog has no images with security patches")
		}
		return Target{Type: NodeImageOnly, NodeImages: NodeImages{Selection: Custom, Versions: patches}}, nil
	}
	to, err := p.version(releases, clusters)
	if err != nil {
		return Target{}, fmt.Errorf("upgrade profile: channel %s: %w", p.Channel, err)
	}
	return Target{Type: Full, KubernetesVersion: to, NodeImages: NodeImages{Selection: p.NodeImages}}, nil
}

// version returns the version of a channel of versions.
func (p Profile) version(releases []Release, clusters map[string]Cluster) (string, error) {
	newest, err := newestMinor(releases)
	if err != nil {
		return "", err
	}
	goal := newest
	switch p.Channel {
	case Stable:
		goal = version.MajorMinor(newest.Major(), newest.Minor()-1)
	case TargetKubernetesVersion:
		goal = minorOf(p.KubernetesVersion)
	case Rapid, NodeImage, SecurityPatch:
	}
	if newest.LessThan(goal) {
		return "", fmt.Errorf("%s is not released: the newest minor version is %s", goal, newest)
	}
	if goal.Minor()+supportedMinors < newest.Minor() && !p.LongTermSupport {
		return "", fmt.Errorf("%s is not supported any more, the newest minor version is %s: choose a newer one, or set longTermSupport", goal, newest)
	}
	for _, name := range slices.Sorted(maps.Keys(clusters)) {
		has := parsed(clusters[name].ControlPlane)
		if has == nil {
			return "", fmt.Errorf("cluster %s: its version %q cannot be compared", name, clusters[name].ControlPlane)
		}
		if has.Major() == goal.Major() && has.Minor()+1 < goal.Minor() {
			goal = version.MajorMinor(has.Major(), has.Minor()+1)
		}
	}
	return newestPatch(releases, goal, p.LongTermSupport)
}

// newestMinor returns N.
func newestMinor(releases []Release) (*version.Version, error) {
	var newest *version.Version
	for _, r := range releases {
		v, err := version.ParseSemantic(r.Version)
		if err != nil {
			return nil, fmt.Errorf("the catalog has version %q, which must be as 1.30.2", r.Version)
		}
		if !r.Preview && !r.LongTermSupport && (newest == nil || newest.LessThan(v)) {
			newest = v
		}
	}
	if newest == nil {
		return nil, errors.New("the catalog has no release")
	}
	return version.MajorMinor(newest.Major(), newest.Minor()), nil
}

// newestPatch returns the newest release of a minor version.
func newestPatch(releases []Release, minor *version.Version, longTerm bool) (string, error) {
	var newest *version.Version
	var out string
	for _, r := range releases {
		v := parsed(r.Version)
		switch {
		case r.Preview, r.LongTermSupport && !longTerm:
		case v.Major() != minor.Major() || v.Minor() != minor.Minor():
		case newest == nil || newest.LessThan(v):
			newest, out = v, r.Version
		}
	}
	if newest == nil {
		return "", fmt.Errorf("the catalog has no release of %s", minor)
	}
	return strings.TrimPrefix(out, "v"), nil
}

// AutoUpgrade follows a profile. It is the source of a placement, and its method Revision is the
// Revision of a trigger. Its methods may be called concurrently.
type AutoUpgrade struct {
	// Name is the name of the source's object: see [Selector].
	Name    string
	Profile Profile
	Catalog Catalog
	// Provider describes the clusters of Inventory that the stages of Strategy pick. Runs leave out
	// clusters with transient errors: see Target.Unavailable.
	Provider  Provider
	Inventory backend.Inventory
	Strategy  stages.Strategy
}

// Objects yields the current target, like [Source]; AutoUpgrade is a [snapshot.Source].
func (a *AutoUpgrade) Objects(ctx context.Context, q snapshot.Query) iter.Seq2[*unstructured.Unstructured, error] {
	if !asks(q, a.Name) {
		return func(func(*unstructured.Unstructured, error) bool) {}
	}
	return func(yield func(*unstructured.Unstructured, error) bool) {
		t, _, err := a.target(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		yield(Object(a.Name, t))
	}
}

// Revision returns a short name of the current target. For a channel of versions it is the version,
// so that a new image alone starts no run. Otherwise it is a digest of the images.
func (a *AutoUpgrade) Revision(ctx context.Context) (string, error) {
	t, described, err := a.target(ctx)
	if err != nil {
		return "", err
	}
	if t.Type == Full {
		return t.KubernetesVersion, nil
	}
	images := sets.New(t.NodeImages.Versions...)
	if len(images) == 0 { // Latest: the first image that each pool is offered
		for _, d := range described {
			for i := range d.Pools {
				if offered := d.Pools[i].Images; len(offered) > 0 {
					images.Insert(d.Region + "/" + d.Pools[i].Family + "/" + offered[0])
				}
			}
		}
	}
	digest := sha256.Sum256([]byte(strings.Join(sets.List(images), "\n")))
	return "images-" + hex.EncodeToString(digest[:])[:revisionDigits], nil
}

// revisionDigits is the number of digits of a digest in the name of a run.
const revisionDigits = 12

// target returns the resolved target, and the clusters that it was determined from. Clusters that
// do not answer are named in Target.Unavailable.
func (a *AutoUpgrade) target(ctx context.Context) (Target, []description, error) {
	var releases []Release
	var patches []string
	var err error
	switch a.Profile.Channel {
	case Stable, Rapid, TargetKubernetesVersion:
		releases, err = a.Catalog.Releases(ctx)
	case SecurityPatch:
		patches, err = a.Catalog.SecurityPatches(ctx)
	case NodeImage: // the images offered to the pools suffice
	}
	if err != nil {
		return Target{}, nil, fmt.Errorf("catalog: %w", err)
	}
	picked, err := picks(ctx, a.Inventory, a.Strategy)
	if err != nil {
		return Target{}, nil, err
	}
	described, failed := describe(ctx, a.Provider, picked)
	if err := keepsFromUpgrade(ctx, described, failed); err != nil {
		return Target{}, nil, err
	}
	clusters := make(map[string]Cluster, len(described))
	for _, d := range described {
		clusters[d.name] = d.Cluster
	}
	t, err := a.Profile.Target(releases, patches, clusters)
	for _, d := range failed {
		t.Unavailable = append(t.Unavailable, d.name)
	}
	if err != nil || t.resolved() {
		return t, described, err
	}
	t.NodeImages.Versions, err = common(described)
	return t, described, err
}

// keepsFromUpgrade returns an error if no target can be determined: a cluster failed for good, or
// no cluster answers. Other failed clusters are left out of the run.
func keepsFromUpgrade(ctx context.Context, described, failed []description) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(described) == 0 {
		return joined(failed)
	}
	return joined(lasting(failed))
}
