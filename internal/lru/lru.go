// Package lru caches values up to a total weight and evicts the least recently used first.
package lru

import (
	"container/list"
	"sync"
)

// Cache holds values by key, up to a total weight. It is safe for concurrent use. The values are
// shared: a cache neither copies nor closes them.
type Cache[K comparable, V any] struct {
	weigh func(V) int

	mu          sync.Mutex
	most, total int
	recent      list.List // of *entry[K, V], the least recently used at the back
	byKey       map[K]*list.Element
}

type entry[K comparable, V any] struct {
	key    K
	value  V
	weight int
}

// New returns a cache with the maximum total weight most. A nil weigh gives each value the weight
// 1; the weight of a value must not change.
func New[K comparable, V any](most int, weigh func(V) int) *Cache[K, V] {
	if weigh == nil {
		weigh = func(V) int { return 1 }
	}
	return &Cache[K, V]{weigh: weigh, most: most, byKey: map[K]*list.Element{}}
}

// Get returns the value of a key and makes it the most recently used.
func (c *Cache[K, V]) Get(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.get(key)
}

// GetOrAdd is Get, or adds the result of build. Calls of build are serialized, even for different
// keys, so build must be fast and must not use the cache.
func (c *Cache[K, V]) GetOrAdd(key K, build func() V) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	if value, ok := c.get(key); ok {
		return value
	}
	value := build()
	c.add(key, value)
	return value
}

// Add makes value the most recently used. It returns the values that the cache no longer holds:
// the previous value of the key, the evicted values, and value itself if it exceeds the maximum
// weight alone; then Add evicts nothing.
func (c *Cache[K, V]) Add(key K, value V) (displaced []V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.add(key, value)
}

// Take removes the value of a key and returns it.
func (c *Cache[K, V]) Take(key K) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if ok {
		value = c.remove(e)
	}
	return value, ok
}

// Resize changes the maximum total weight and returns the evicted values. A cache of size 0 holds
// nothing.
func (c *Cache[K, V]) Resize(most int) (evicted []V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.most = most
	return c.shrink(nil)
}

// Len returns the number of values.
func (c *Cache[K, V]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byKey)
}

// The functions below require the lock.

func (c *Cache[K, V]) get(key K) (value V, ok bool) {
	e, ok := c.byKey[key]
	if ok {
		c.recent.MoveToFront(e)
		value = e.Value.(*entry[K, V]).value
	}
	return value, ok
}

func (c *Cache[K, V]) add(key K, value V) (displaced []V) {
	if e, ok := c.byKey[key]; ok {
		displaced = append(displaced, c.remove(e))
	}
	weight := c.weigh(value)
	if weight > c.most {
		return append(displaced, value)
	}
	c.byKey[key] = c.recent.PushFront(&entry[K, V]{key, value, weight})
	c.total += weight
	return c.shrink(displaced)
}

// shrink evicts values until the total weight is small enough, and appends them to evicted.
func (c *Cache[K, V]) shrink(evicted []V) []V {
	for c.total > c.most {
		evicted = append(evicted, c.remove(c.recent.Back()))
	}
	return evicted
}

func (c *Cache[K, V]) remove(e *list.Element) V {
	old := c.recent.Remove(e).(*entry[K, V])
	delete(c.byKey, old.key)
	c.total -= old.weight
	return old.value
}
