package httpjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/backend"
)

// read returns the samples of a document.
func read(document []byte, pointer []string, most int) ([]backend.Sample, error) {
	dec := json.NewDecoder(bytes.NewReader(document))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil, errors.New("the answer is not JSON")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the answer is more than one JSON value")
	}
	value, err := follow(value, pointer)
	if err != nil {
		return nil, err
	}
	list, several := value.([]any)
	if !several {
		list = []any{value}
	}
	if len(list) > most {
		return nil, fmt.Errorf("the array has %d elements, more than %d", len(list), most)
	}
	samples := make([]backend.Sample, 0, len(list))
	for i, element := range list {
		s, found, err := sample(element, several)
		if err != nil && several {
			return nil, fmt.Errorf("element %d of the array: %w", i, err)
		}
		if err != nil {
			return nil, err
		}
		if found {
			samples = append(samples, s)
		}
	}
	return samples, nil
}

// follow returns the value at a pointer, or nil if there is none.
func follow(value any, pointer []string) (any, error) {
	for _, step := range pointer {
		switch at := value.(type) {
		case map[string]any:
			value = at[step]
		case []any:
			i, err := strconv.ParseUint(step, 10, 31)
			switch {
			case step == "-":
				return nil, nil
			case err != nil || step != strconv.FormatUint(i, 10):
				return nil, fmt.Errorf("the pointer's step %.50q leads into an array, and is no index", step)
			case i >= uint64(len(at)):
				return nil, nil
			}
			value = at[i]
		default:
			return nil, nil
		}
	}
	return value, nil
}

// sample converts a JSON value. An element of an array may be an object with a value and labels.
func sample(value any, element bool) (s backend.Sample, found bool, err error) {
	if object, ok := value.(map[string]any); ok && element {
		if value, ok = object["value"]; !ok {
			return s, false, errors.New("the object has no value")
		}
		if s.Labels, err = labels(object["labels"]); err != nil {
			return s, false, err
		}
	}
	if value == nil {
		return s, false, nil
	}
	s.Value, err = number(value)
	return s, err == nil, err
}

func labels(value any) (map[string]string, error) {
	if value == nil {
		return nil, nil
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("labels is no object")
	}
	out := make(map[string]string, len(object))
	for name, value := range object {
		if out[name], ok = value.(string); !ok {
			return nil, fmt.Errorf("the label %.50q is no string", name)
		}
	}
	return out, nil
}

// number converts a JSON value to a number.
func number(value any) (float64, error) {
	switch v := value.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return 0, errors.New("the number is too large")
		}
		return f, nil
	case string:
		f, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
		if err != nil {
			return 0, errors.New("there is a string that is no number")
		}
		return f, nil
	case bool:
		return 0, errors.New("there is a boolean instead of a number")
	case map[string]any:
		return 0, errors.New("there is an object instead of a number: point to a field of it")
	default:
		return 0, errors.New("there is an array instead of a number")
	}
}
