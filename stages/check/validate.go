package check

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Kind says where in a strategy a list of checks is.
type Kind int

// The kinds of checks.
const (
	// OfGate: before or after a stage or a group.
	OfGate Kind = iota
	// OfStage: measured while a stage runs.
	OfStage
	// OfClusters: for each cluster of a stage.
	OfClusters
)

// Problems returns everything that is wrong with a list of checks.
func Problems(at *field.Path, checks []Check, kind Kind) field.ErrorList {
	var errs field.ErrorList
	if len(checks) > maxChecks {
		errs = append(errs, field.TooMany(at, len(checks), maxChecks))
	}
	seen := sets.New[string]()
	for i := range checks {
		c, at := &checks[i], at.Index(i)
		if c.Name != "" && seen.Has(c.Name) {
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		}
		seen.Insert(c.Name)
		errs = append(errs, c.problems(at, kind)...)
	}
	return errs
}

func (c *Check) problems(at *field.Path, kind Kind) field.ErrorList {
	var errs field.ErrorList
	if c.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), "a DNS label (RFC 1123), for example error-rate"))
	} else {
		for _, msg := range validation.IsDNS1123Label(c.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), c.Name, msg))
		}
	}
	if c.Provider != "" {
		for _, msg := range validation.IsDNS1123Subdomain(c.Provider) {
			errs = append(errs, field.Invalid(at.Child("provider"), c.Provider, msg))
		}
	}
	if c.Object != "" || c.Cluster != "" {
		errs = append(errs, c.problemsOfObject(at, kind)...)
	} else {
		errs = append(errs, c.problemsOfQuery(at, kind)...)
		errs = append(errs, c.problemsOfBounds(at)...)
	}
	errs = append(errs, c.problemsOfTimes(at, kind)...)
	switch c.Empty {
	case "", Successful, Failed, Inconclusive:
	default:
		errs = append(errs, field.NotSupported(at.Child("empty"), c.Empty, []Phase{Successful, Failed, Inconclusive}))
	}
	return errs
}

func (c *Check) problemsOfQuery(at *field.Path, kind Kind) field.ErrorList {
	var errs field.ErrorList
	switch {
	case strings.TrimSpace(c.Query) == "":
		errs = append(errs, field.Required(at.Child("query"), "what is asked, in the language of the provider"))
	case len(c.Query) > maxQuery || !utf8.ValidString(c.Query):
		errs = append(errs, field.Invalid(at.Child("query"), fmt.Sprintf("%.40q…", c.Query), fmt.Sprintf("must be UTF-8 of at most %d bytes", maxQuery)))
	}
	if problem := c.queryProblem(kind == OfClusters && c.ClusterLabel == ""); problem != "" {
		errs = append(errs, field.Invalid(at.Child("query"), fmt.Sprintf("%.80s", c.Query), problem))
	}
	if c.ClusterLabel != "" && kind != OfClusters {
		errs = append(errs, field.Forbidden(at.Child("clusterLabel"), "only a check of clusters has a number for each of them"))
	}
	return errs
}

func (c *Check) problemsOfObject(at *field.Path, kind Kind) field.ErrorList {
	var errs field.ErrorList
	if c.Object == "" {
		errs = append(errs, field.Required(at.Child("object"), "the name of a check object of the snapshot, which is applied to the cluster"))
	}
	for _, msg := range validation.IsDNS1123Label(c.Object) {
		if c.Object != "" {
			errs = append(errs, field.Invalid(at.Child("object"), c.Object, msg))
		}
	}
	switch {
	case kind == OfStage:
		errs = append(errs, field.Forbidden(at.Child("object"), "a check that goes on for as long as its stage does has a query"))
	case kind == OfGate && c.Cluster == "":
		errs = append(errs, field.Required(at.Child("cluster"), "the cluster to which the object is applied, for example the hub where it is in the inventory"))
	case kind == OfClusters && c.Cluster != "":
		errs = append(errs, field.Forbidden(at.Child("cluster"), "a check of clusters applies its object to the cluster that is checked"))
	}
	if c.Cluster != "" {
		for _, msg := range validation.IsDNS1123Label(c.Cluster) {
			errs = append(errs, field.Invalid(at.Child("cluster"), c.Cluster, msg))
		}
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"provider", c.Provider != ""},
		{"query", c.Query != ""},
		{"clusterLabel", c.ClusterLabel != ""},
		{"min", c.Min != nil},
		{"max", c.Max != nil},
		{"empty", c.Empty != ""},
	} {
		if f.set {
			errs = append(errs, field.Forbidden(at.Child(f.name), "a check with an object has no query: it is good when the object is healthy"))
		}
	}
	return errs
}

func (c *Check) problemsOfBounds(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, b := range []struct {
		name  string
		value *float64
	}{{"min", c.Min}, {"max", c.Max}} {
		if b.value != nil && (math.IsNaN(*b.value) || math.IsInf(*b.value, 0)) {
			errs = append(errs, field.Invalid(at.Child(b.name), fmt.Sprint(*b.value), "must be a finite number"))
		}
	}
	switch {
	case c.Min == nil && c.Max == nil:
		errs = append(errs, field.Required(at.Child("max"), "a check has a min, a max or both: without one every number is good"))
	case c.Min != nil && c.Max != nil && *c.Min > *c.Max:
		errs = append(errs, field.Invalid(at.Child("min"), *c.Min, fmt.Sprintf("must not be more than max, %v: no number is good", *c.Max)))
	}
	return errs
}

func (c *Check) problemsOfTimes(at *field.Path, kind Kind) field.ErrorList {
	var errs field.ErrorList
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"initialDelay", c.InitialDelay.Duration}, {"interval", c.Interval.Duration}, {"expires", c.Expires.Duration}} {
		if d.value < 0 || d.value > longest {
			errs = append(errs, field.Invalid(at.Child(d.name), d.value.String(), "must be between 0 and 365 days"))
		}
	}
	if c.Interval.Duration > 0 && c.Interval.Duration < shortestInterval {
		errs = append(errs, field.Invalid(at.Child("interval"), c.Interval.Duration.String(), "must be at least 1s"))
	}
	for _, l := range []struct {
		name  string
		value int
	}{{"count", c.Count}, {"failureLimit", c.FailureLimit}, {"inconclusiveLimit", c.InconclusiveLimit}, {"consecutiveErrorLimit", c.ErrorLimit()}} {
		if l.value < 0 || l.value > maxNumber {
			errs = append(errs, field.Invalid(at.Child(l.name), l.value, fmt.Sprintf("must be from 0 to %d", maxNumber)))
		}
	}
	if c.Count > 1 && c.Interval.Duration == 0 {
		errs = append(errs, field.Required(at.Child("interval"), "the time between the measurements, of which there are several"))
	}
	if kind != OfStage {
		return errs
	}
	if c.Count != 0 {
		errs = append(errs, field.Forbidden(at.Child("count"), "a check that goes on for as long as its stage does is measured until then"))
	}
	if c.Expires.Duration != 0 {
		errs = append(errs, field.Forbidden(at.Child("expires"), "a check that goes on for as long as its stage does ends with it"))
	}
	return errs
}
