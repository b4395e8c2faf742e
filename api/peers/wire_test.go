package peers

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// TestEveryFieldSurvives fills each object of KubeFleet, and writes and reads it by Slipway's
// types: no field is lost or changed.
func TestEveryFieldSurvives(t *testing.T) {
	for _, p := range pairs() {
		kind := reflect.TypeOf(p.ours).Elem().Name()
		t.Run(kind, func(t *testing.T) {
			fill(reflect.ValueOf(p.theirs).Elem(), kind)
			want := encoded(t, p.theirs)
			roundTrip(t, want, p)
		})
	}
}

// TestAnEmptyObjectHasNothingMore compares objects without any value: Slipway writes no field
// that KubeFleet does not write.
func TestAnEmptyObjectHasNothingMore(t *testing.T) {
	for _, p := range pairs() {
		within(t, reflect.TypeOf(p.ours).Elem().Name(), decoded(t, encoded(t, p.ours)), decoded(t, encoded(t, p.theirs)))
	}
}

// within checks that a tree contains all of another one.
func within(t *testing.T, at string, part, whole any) {
	t.Helper()
	fields, ok := part.(map[string]any)
	if !ok {
		if part != whole {
			t.Errorf("%s is %v, in KubeFleet %v", at, part, whole)
		}
		return
	}
	more, _ := whole.(map[string]any)
	for name, v := range fields {
		if _, ok := more[name]; !ok {
			t.Errorf("KubeFleet does not write %s.%s: %v", at, name, v)
			continue
		}
		within(t, at+"."+name, v, more[name])
	}
}

// TestKubeFleetsExamples reads the objects of all YAML files in KubeFleet's module into both types.
func TestKubeFleetsExamples(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "go.goms.io/fleet").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	err = filepath.WalkDir(strings.TrimSpace(string(out)), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".yaml") && !d.IsDir() {
			seen += readExamples(t, path)
		}
		return err
	})
	if err != nil || seen < 35 {
		t.Errorf("%d objects, %v", seen, err)
	}
}

// readExamples reads the objects of a file, and returns how many are of the compared kinds.
func readExamples(t *testing.T, path string) (seen int) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	decoder := yaml.NewYAMLOrJSONDecoder(file, 1<<16)
	for {
		var text json.RawMessage
		switch err := decoder.Decode(&text); {
		case errors.Is(err, io.EOF):
			return seen
		case err != nil:
			return seen // a template
		}
		var meta metav1.TypeMeta
		if json.Unmarshal(text, &meta) != nil || !strings.HasSuffix(meta.APIVersion, ".kubernetes-fleet.io/v1beta1") {
			continue
		}
		for _, p := range pairs() {
			if reflect.TypeOf(p.ours).Elem().Name() == meta.Kind {
				if json.Unmarshal(text, p.theirs) == nil { // an example of an older version is not read
					seen++
					roundTrip(t, encoded(t, p.theirs), p)
				}
			}
		}
	}
}

// roundTrip reads an object of KubeFleet by Slipway's type and writes it: that is the same text,
// and KubeFleet reads it as before.
func roundTrip(t *testing.T, text []byte, p pair) {
	t.Helper()
	mine := reflect.New(reflect.TypeOf(p.ours).Elem()).Interface().(runtime.Object)
	if err := json.Unmarshal(text, mine); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	got := encoded(t, mine)
	if diff := cmp.Diff(without(decoded(t, text), leftOutOf(p)), prune(decoded(t, got))); diff != "" {
		t.Errorf("%T (-KubeFleet +Slipway):\n%s", p.ours, diff)
	}
	back := reflect.New(reflect.TypeOf(p.theirs).Elem()).Interface()
	if err := json.Unmarshal(got, back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(without(decoded(t, text), leftOutOf(p)), without(decoded(t, encoded(t, back)), leftOutOf(p))); diff != "" {
		t.Errorf("%T, read by KubeFleet again (-want +got):\n%s", p.ours, diff)
	}
}

// leftOutOf are the paths of leftOut in a kind.
func leftOutOf(p pair) [][]string {
	if reflect.TypeOf(p.ours).Elem().Name() != "ClusterResourceBinding" {
		return nil
	}
	paths := [][]string{{"status"}}
	for name := range leftOut {
		if field, ok := strings.CutPrefix(name, "ResourceBindingSpec."); ok {
			paths = append(paths, []string{"spec", field})
		}
	}
	return paths
}

// without is a tree without paths, and without null and empty objects.
func without(tree any, paths [][]string) any {
	for _, path := range paths {
		m := tree.(map[string]any)
		for _, name := range path[:len(path)-1] {
			m, _ = m[name].(map[string]any)
		}
		delete(m, path[len(path)-1])
	}
	return prune(tree)
}

// prune removes null and empty objects from a tree.
func prune(tree any) any {
	switch x := tree.(type) {
	case map[string]any:
		for name, v := range x {
			if v = prune(v); v == nil {
				delete(x, name)
			} else {
				x[name] = v
			}
		}
		if len(x) == 0 {
			return nil
		}
	case []any:
		for i := range x {
			x[i] = prune(x[i])
		}
	}
	return tree
}

func encoded(t *testing.T, obj any) []byte {
	t.Helper()
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func decoded(t *testing.T, text []byte) any {
	t.Helper()
	var tree any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

// fill gives each field a value that contains its path.
func fill(v reflect.Value, at string) {
	switch x := v.Addr().Interface().(type) {
	case *metav1.Time:
		*x = metav1.NewTime(time.Date(2026, 11, 28, 12, 0, len(at)%60, 0, time.UTC))
		return
	case *metav1.Duration:
		*x = metav1.Duration{Duration: time.Duration(len(at)) * time.Second}
		return
	case *intstr.IntOrString:
		*x = intstr.FromInt32(int32(len(at)))
		return
	case *resource.Quantity:
		*x = resource.MustParse("3")
		return
	case *runtime.RawExtension:
		x.Raw = []byte(`{"apiVersion":"v1","kind":"ConfigMap"}`)
		return
	case *metav1.ObjectMeta:
		x.Name, x.Labels = at, map[string]string{"a": "b"}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), at)
	case reflect.Struct:
		if v.Type().Name() == "JSON" {
			v.FieldByName("Raw").SetBytes([]byte(`{"a":[1,null,"b"]}`))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), at+"."+v.Type().Field(i).Name)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), at)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value, at)
		v.SetMapIndex(reflect.ValueOf("key").Convert(v.Type().Key()), value)
	case reflect.String:
		v.SetString(at)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(len(at)))
	case reflect.Uint8:
		v.SetUint(uint64(len(at)))
	}
}
