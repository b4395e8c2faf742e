package hubapi

import (
	"io"
	"slices"
	"strings"
	"testing"
)

func TestAListThatIsCutOffIsAnError(t *testing.T) {
	t.Parallel()
	const list = `{"kind":"L","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"name":"a"},{"name":"b"}]}`
	type item struct {
		Name string `json:"name"`
	}
	for n := range len(list) {
		items, err := decodeItems[item](strings.NewReader(list[:n]))
		if end := strings.Index(list, "]}"); (err == nil) != (n > end) {
			t.Errorf("%s: %v, %v", list[:n], items, err)
		}
	}
	if items, err := decodeItems[item](io.MultiReader(strings.NewReader(list[:70]), strings.NewReader(list[70:]))); err != nil || !slices.Equal(items, []item{{"a"}, {"b"}}) {
		t.Errorf("%v, %v", items, err)
	}
	if items, err := decodeItems[item](strings.NewReader(`{"items":null}`)); err != nil || len(items) != 0 {
		t.Errorf("no items: %v, %v", items, err)
	}
}
