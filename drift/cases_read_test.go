package drift_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// script is a case of testdata/cases.
type script struct {
	ID   string `yaml:"id"`
	Says string `yaml:"says"`
	// Of is a file of testdata/objects with the applied object and the server's object. Hub, Member
	// and Both change these objects; without Of, Hub and Member are the objects.
	Of       string    `yaml:"of"`
	Hub      yaml.Node `yaml:"hub"`
	Member   yaml.Node `yaml:"member"`
	Both     yaml.Node `yaml:"both"`
	Baseline yaml.Node `yaml:"baseline"`
	// Absent reports whether there is no object on the member.
	Absent bool `yaml:"absent"`
	// CRD is a file of testdata/objects.
	CRD     string        `yaml:"crd"`
	Options scriptOptions `yaml:"options"`
	Expect  expectation   `yaml:"expect"`

	hub, member, baseline *unstructured.Unstructured
}

type scriptOptions struct {
	Manager        string   `yaml:"manager"`
	Status         bool     `yaml:"status"`
	Ignore         []string `yaml:"ignore"`
	IgnoreManagers []string `yaml:"ignoreManagers"`
	Secrets        []string `yaml:"secrets"`
}

// expectation is the expected result.
type expectation struct {
	// Both are the entries of both comparisons, if they are equal.
	Both    []yaml.Node `yaml:"both"`
	Partial []yaml.Node `yaml:"partial"`
	Full    []yaml.Node `yaml:"full"`
	// Warnings has a part of each expected warning, and there must be no others.
	Warnings []string `yaml:"warnings"`
	State    string   `yaml:"state"`
	// Error is a part of the error.
	Error string `yaml:"error"`
	// Never must not be in any output.
	Never []string `yaml:"never"`
	// Total and Entries are numbers, for cases with too many entries to list.
	Total     int  `yaml:"total"`
	Entries   int  `yaml:"entries"`
	Truncated bool `yaml:"truncated"`
}

// readScripts reads a file of cases.
func readScripts(file string) ([]*script, error) {
	docs, err := documents(file)
	if err != nil {
		return nil, err
	}
	var all []*script
	for i, doc := range docs {
		s := &script{}
		if err := doc.Decode(s); err != nil {
			return nil, fmt.Errorf("%s, document %d: %w", file, i+1, err)
		}
		if err := s.prepare(); err != nil {
			return nil, fmt.Errorf("%s, %s: %w", file, s.ID, err)
		}
		all = append(all, s)
	}
	return all, nil
}

func documents(file string) (docs []*yaml.Node, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	d := yaml.NewDecoder(f)
	for {
		n := &yaml.Node{}
		if d.Decode(n) != nil {
			break
		}
		docs = append(docs, n)
	}
	var rest yaml.Node // an error of the syntax comes again
	if err := d.Decode(&rest); err != nil && err.Error() != "EOF" {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return docs, nil
}

func objectFile(name string) string { return filepath.Join("testdata", "objects", name+".yaml") }

// prepare makes the objects.
func (s *script) prepare() (err error) {
	var start [2]map[string]any
	if s.Of != "" {
		docs, err := documents(objectFile(s.Of))
		if err != nil {
			return err
		}
		for i := range start {
			if start[i], err = objectOf(docs[i].Content[0]); err != nil {
				return err
			}
		}
	}
	if s.hub, err = s.make(start[0], &s.Hub); err != nil {
		return err
	}
	if s.Baseline.Kind != 0 {
		if s.baseline, err = s.make(start[1], &s.Baseline); err != nil {
			return err
		}
	}
	if !s.Absent {
		s.member, err = s.make(start[1], &s.Member)
	}
	return err
}

// make returns an object: start with changes, or an object of the case.
func (s *script) make(start map[string]any, n *yaml.Node) (*unstructured.Unstructured, error) {
	if s.Of == "" {
		o, err := objectOf(n)
		return &unstructured.Unstructured{Object: o}, err
	}
	o := runtime.DeepCopyJSON(start)
	for _, edits := range []*yaml.Node{&s.Both, n} {
		if err := edit(o, edits); err != nil {
			return nil, err
		}
	}
	return &unstructured.Unstructured{Object: o}, nil
}

// edit performs the changes below set and drop.
func edit(o map[string]any, n *yaml.Node) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		what, list := n.Content[i].Value, n.Content[i+1]
		switch what {
		case "set":
			for j := 0; j+1 < len(list.Content); j += 2 {
				v, err := valueOf(list.Content[j+1])
				if err != nil {
					return err
				}
				if err := put(o, list.Content[j].Value, v, true); err != nil {
					return err
				}
			}
		case "drop":
			for _, p := range list.Content {
				if err := put(o, p.Value, nil, false); err != nil {
					return err
				}
			}
		default:
			return fmt.Errorf("%q is no edit: it must be set or drop", what)
		}
	}
	return nil
}

// put sets or drops the value at a pointer. It creates missing maps, and an index after the last
// item appends.
func put(o map[string]any, pointer string, v any, there bool) error {
	path := segments(pointer)
	_, err := putAt(o, path, v, there)
	if err != nil {
		return fmt.Errorf("%s: %w", pointer, err)
	}
	return nil
}

func putAt(at any, path []string, v any, there bool) (any, error) {
	if len(path) == 0 {
		return v, nil
	}
	switch at := at.(type) {
	case map[string]any:
		if len(path) == 1 && !there {
			delete(at, path[0])
			return at, nil
		}
		child, ok := at[path[0]]
		if !ok {
			child = map[string]any{}
		}
		next, err := putAt(child, path[1:], v, there)
		at[path[0]] = next
		return at, err
	case []any:
		i, err := strconv.Atoi(path[0])
		switch {
		case err != nil || i < 0 || i > len(at):
			return at, fmt.Errorf("%q is no index of %d items", path[0], len(at))
		case len(path) == 1 && !there:
			return slices.Delete(at, i, i+1), nil
		case i == len(at):
			at = append(at, map[string]any{})
		}
		at[i], err = putAt(at[i], path[1:], v, there)
		return at, err
	}
	return at, fmt.Errorf("%q is not in %T", path[0], at)
}

func segments(pointer string) []string {
	if pointer == "" {
		return nil
	}
	parts := strings.Split(pointer[1:], "/")
	for i := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(parts[i])
	}
	return parts
}

func objectOf(n *yaml.Node) (map[string]any, error) {
	v, err := valueOf(n)
	if err != nil {
		return nil, err
	}
	o, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("line %d: %T is no object", n.Line, v)
	}
	return o, nil
}

// valueOf returns the value of a node, decoded as in apimachinery; an integer beyond int64 is a
// json.Number.
func valueOf(n *yaml.Node) (any, error) {
	switch n.Kind {
	case yaml.AliasNode:
		return valueOf(n.Alias)
	case yaml.MappingNode:
		o := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			v, err := valueOf(n.Content[i+1])
			if err != nil {
				return nil, err
			}
			o[n.Content[i].Value] = v
		}
		return o, nil
	case yaml.SequenceNode:
		l := make([]any, 0, len(n.Content))
		for _, c := range n.Content {
			v, err := valueOf(c)
			if err != nil {
				return nil, err
			}
			l = append(l, v)
		}
		return made(n.Tag, l)
	}
	if strings.HasPrefix(n.Tag, "!") && !strings.HasPrefix(n.Tag, "!!") {
		i, err := strconv.ParseInt(n.Value, 10, 64)
		return made2(n.Tag, []any{i}, err)
	}
	return scalarOf(n)
}

func made2(tag string, l []any, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return made(tag, l)
}

// made generates a value that is too long for the case file.
func made(tag string, l []any) (any, error) {
	if strings.HasPrefix(tag, "!!") || tag == "" {
		return l, nil
	}
	switch tag {
	case "!repeat": // [text, times, end]
		return strings.Repeat(l[0].(string), int(l[1].(int64))) + l[2].(string), nil
	case "!keys": // [count, value]
		o := map[string]any{}
		for i := range int(l[0].(int64)) {
			o["k"+strconv.Itoa(i)] = runtime.DeepCopyJSONValue(l[1])
		}
		return o, nil
	case "!nest": // levels, or [levels, value]
		var v any = "deep"
		if len(l) > 1 {
			v = l[1]
		}
		for range int(l[0].(int64)) {
			v = map[string]any{"a": v}
		}
		return v, nil
	}
	return nil, fmt.Errorf("the tag %s is not known", tag)
}

func scalarOf(n *yaml.Node) (any, error) {
	switch n.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool":
		return strconv.ParseBool(n.Value)
	case "!!int", "!!float":
		if i, err := strconv.ParseInt(n.Value, 10, 64); err == nil {
			return i, nil
		}
		f, err := strconv.ParseFloat(n.Value, 64)
		if wide := regexp.MustCompile(`^-?[0-9]+$`).MatchString(n.Value); wide || math.IsInf(f, 0) {
			return json.Number(n.Value), nil
		}
		return f, err
	}
	return n.Value, nil
}
