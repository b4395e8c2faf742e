package lru

import (
	"slices"
	"sync"
	"testing"
)

// held returns the keys that a cache holds, the least recently used first.
func held[K comparable, V any](c *Cache[K, V]) (keys []K) {
	for e := c.recent.Back(); e != nil; e = e.Prev() {
		keys = append(keys, e.Value.(*entry[K, V]).key)
	}
	return keys
}

func TestTheLeastRecentlyUsedIsEvicted(t *testing.T) {
	c := New[string, int](3, nil)
	for i, key := range []string{"a", "b", "c"} {
		if out := c.Add(key, i); out != nil {
			t.Errorf("adding %s displaced %v", key, out)
		}
	}
	if v, ok := c.Get("a"); v != 0 || !ok {
		t.Errorf("a is %d, %v", v, ok)
	}
	if out := c.Add("d", 3); !slices.Equal(out, []int{1}) {
		t.Errorf("adding d displaced %v", out)
	}
	if out := c.Add("c", 7); !slices.Equal(out, []int{2}) {
		t.Errorf("adding c again displaced %v", out)
	}
	if v := c.GetOrAdd("a", func() int { t.Error("a was built again"); return 0 }); v != 0 {
		t.Errorf("a is %d", v)
	}
	if v := c.GetOrAdd("e", func() int { return 9 }); v != 9 {
		t.Errorf("e is %d", v)
	}
	if got := held(c); !slices.Equal(got, []string{"c", "a", "e"}) || c.Len() != 3 {
		t.Errorf("%v are held, %d", got, c.Len())
	}
	if v, ok := c.Take("a"); v != 0 || !ok {
		t.Errorf("took %d, %v", v, ok)
	}
	if _, ok := c.Take("a"); ok {
		t.Error("a was taken twice")
	}
}

func TestWeightsAreBounded(t *testing.T) {
	c := New[string](10, func(v int) int { return v })
	c.Add("a", 4)
	c.Add("b", 5)
	if out := c.Add("c", 3); !slices.Equal(out, []int{4}) {
		t.Errorf("adding c displaced %v", out)
	}
	if out := c.Add("huge", 11); !slices.Equal(out, []int{11}) || c.Len() != 2 {
		t.Errorf("a value that is too heavy displaced %v, and %d are held", out, c.Len())
	}
	if out := c.Add("b", 11); !slices.Equal(out, []int{5, 11}) {
		t.Errorf("b with a value that is too heavy displaced %v", out)
	}
	if out := c.Resize(0); !slices.Equal(out, []int{3}) || c.total != 0 {
		t.Errorf("to nothing: %v, and %d are left", out, c.total)
	}
	if out := c.Add("a", 1); !slices.Equal(out, []int{1}) || c.Len() != 0 {
		t.Errorf("a cache of size 0 took a value, and displaced %v", out)
	}
}

func TestConcurrentUse(t *testing.T) {
	c := New[int, int](8, nil)
	var wg sync.WaitGroup
	for n := range 16 {
		wg.Go(func() {
			for i := range 1000 {
				key := (i * n) % 12
				if v, ok := c.Get(key); ok && v != key {
					t.Errorf("%d is %d", key, v)
				}
				c.Add(key, key)
				c.GetOrAdd(key+1, func() int { return key + 1 })
				c.Take(key + 2)
			}
		})
	}
	wg.Wait()
	if c.Len() > 8 || c.total != c.Len() {
		t.Errorf("%d are held and weigh %d", c.Len(), c.total)
	}
}
