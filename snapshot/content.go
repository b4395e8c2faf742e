package snapshot

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateContent returns an error for each value of an object that no API server can decode. In
// data of a Secret and binaryData of a ConfigMap, values must be base64. In stringData of a Secret
// and data of a ConfigMap, they must be strings. A server answers such an object with status 500,
// which looks transient. The errors name fields and keys, never values.
//
// [Capture] refuses such objects. A caller that changes objects afterwards, for example by
// overrides, must validate them again.
func ValidateContent(obj *unstructured.Unstructured) field.ErrorList {
	if obj == nil {
		return nil
	}
	switch id := IDOf(obj); {
	case id.Group == "" && id.Kind == "Secret":
		return append(validateValues(obj.Object, "data", isBase64), validateValues(obj.Object, "stringData", isAny)...)
	case id.Group == "" && id.Kind == "ConfigMap":
		return append(validateValues(obj.Object, "binaryData", isBase64), validateValues(obj.Object, "data", isAny)...)
	}
	return nil
}

// validateValues reports the values of a map of strings that a server cannot read. Servers read
// null as a missing value.
func validateValues(obj map[string]any, name string, check func(string) string) (errs field.ErrorList) {
	path := field.NewPath(name)
	values, ok := obj[name].(map[string]any)
	if !ok && obj[name] != nil {
		return field.ErrorList{field.TypeInvalid(path, field.OmitValueType{}, "must be a map of names to strings")}
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		at := path.Key(clip(key))
		switch v := values[key].(type) {
		case nil:
		case string:
			if why := check(v); why != "" {
				errs = append(errs, field.Invalid(at, field.OmitValueType{}, why))
			}
		default:
			errs = append(errs, field.TypeInvalid(at, field.OmitValueType{}, "must be a string"))
		}
	}
	return errs
}

func isAny(string) string { return "" }

// isBase64 returns the problem of text that a server cannot decode as base64, without quoting it;
// "" if it is valid.
func isBase64(s string) string {
	if _, err := base64.StdEncoding.DecodeString(s); err != nil {
		return "must be base64, of the standard alphabet and with its padding; text as it is goes into stringData of a Secret, data of a ConfigMap"
	}
	return ""
}

// validateContents reports all objects that a server cannot read.
func validateContents(objs []*unstructured.Unstructured) error {
	var errs []error
	for _, obj := range objs {
		if problems := ValidateContent(obj); len(problems) > 0 {
			errs = append(errs, fmt.Errorf("snapshot: %s: %w", clip(IDOf(obj).String()), problems.ToAggregate()))
		}
	}
	return errors.Join(errs...)
}
