package placement

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateClusters returns all problems of an inventory, or nil: names that are not DNS labels
// and names that occur more than once. Each name is reported once, whatever the order of the
// clusters.
func ValidateClusters(clusters []Cluster) error {
	return checkNames(byName(clusters)).ToAggregate()
}

// byName returns pointers to the clusters, sorted by name.
func byName(clusters []Cluster) []*Cluster {
	sorted := make([]*Cluster, len(clusters))
	for i := range clusters {
		sorted[i] = &clusters[i]
	}
	slices.SortFunc(sorted, func(a, b *Cluster) int { return strings.Compare(a.Name, b.Name) })
	return sorted
}

// checkNames checks clusters that are sorted by name.
func checkNames(sorted []*Cluster) field.ErrorList {
	var errs field.ErrorList
	for i, n := 0, 1; i < len(sorted); i, n = i+n, 1 {
		name := sorted[i].Name
		for i+n < len(sorted) && sorted[i+n].Name == name {
			n++
		}
		if n > 1 || !isLabel(name) { // a path for each good name would cost as much as sorting them
			errs = append(errs, checkName(name, n)...)
		}
	}
	return errs
}

// checkName checks a name that occurs n times in the inventory.
func checkName(name string, n int) field.ErrorList {
	path := field.NewPath("clusters").Key(clip(name)).Child("name")
	errs := validateName(name, path)
	if n > 1 {
		dup := field.Duplicate(path, clip(name))
		dup.Detail = fmt.Sprintf("%d clusters have this name; names are unique in the fleet", n)
		errs = append(errs, dup)
	}
	return errs
}

// validateNames checks that names are DNS labels without duplicates.
func validateNames(names []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := make(map[string]bool, len(names))
	for i, name := range names {
		errs = append(errs, validateName(name, path.Index(i))...)
		if seen[name] {
			errs = append(errs, field.Duplicate(path.Index(i), clip(name)))
		}
		seen[name] = true
	}
	return errs
}

// validateName checks that name is a DNS label. It calls isLabel first because the regular
// expression takes longer than the rest of [Resolve].
func validateName(name string, path *field.Path) field.ErrorList {
	if isLabel(name) {
		return nil
	}
	var errs field.ErrorList
	for _, msg := range validation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(path, clip(name), msg))
	}
	return errs
}

// isLabel reports whether s is a DNS label (RFC 1123).
func isLabel(s string) bool {
	if s == "" || len(s) > validation.DNS1123LabelMaxLength {
		return false
	}
	for i := range len(s) {
		c := s[i]
		inner := c == '-' && i > 0 && i < len(s)-1
		if !inner && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

func validateSelector(s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	return metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, path)
}

// clip bounds the text that an error repeats from its input.
func clip(s string) string {
	const limit = 64
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "..."
}
