package schema

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func blockNames(t *testing.T) []string {
	t.Helper()
	var names []string
	for b := range strings.SplitSeq(builtinText, "\n\n") {
		if !strings.HasPrefix(b, "#") {
			names = append(names, blockName(b))
		}
	}
	return names
}

func TestEveryBlockOfTheTableIsFound(t *testing.T) {
	for _, name := range blockNames(t) {
		if got := builtin.block(name); blockName(got) != name {
			t.Errorf("block %s: got %q", name, got)
		}
	}
	for _, name := range []string{"", "a", "zz", "core/v1.Poc", "core/v1.Pod kind"} {
		if got := builtin.block(name); got != "" {
			t.Errorf("block %q: got %q, want nothing", name, got)
		}
	}
}

func TestEveryKindOfTheTableIsCompiled(t *testing.T) {
	kinds := 0
	for block := range strings.SplitSeq(builtinText, "\n\n") {
		name := blockName(block)
		if !strings.HasPrefix(block, name+" kind") {
			continue
		}
		kinds++
		typ := builtin.named(name)
		if typ.Field("metadata") == nil || typ.Field("apiVersion").Type.Kind != String {
			t.Errorf("%s: %+v", name, typ)
		}
		checkTree(t, typ, map[*Type]bool{})
	}
	if kinds < 150 {
		t.Errorf("%d kinds, want all of k8s.io/api", kinds)
	}
}

func BenchmarkFirstUse(b *testing.B) {
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		b.Run(kind, func(b *testing.B) {
			for b.Loop() {
				(&table{text: builtinText}).Type(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: kind})
			}
		})
	}
	b.Run("again", func(b *testing.B) {
		for b.Loop() {
			builtin.Type(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
		}
	})
}
