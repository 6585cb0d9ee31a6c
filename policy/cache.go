package policy

import (
	"container/list"
	"sync"
)

// An lru keeps the values that were used last, up to a number of them. It is safe for concurrent use.
type lru[K comparable, V any] struct {
	capacity int

	mu    sync.Mutex // guards what follows
	byKey map[K]*list.Element
	order list.List // of entry[K, V], the last used one in front
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

func newLRU[K comparable, V any](capacity int) *lru[K, V] {
	return &lru[K, V]{capacity: max(capacity, 1), byKey: map[K]*list.Element{}}
}

// get returns the value of key and marks it as used.
func (l *lru[K, V]) get(key K) (value V, found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	element, found := l.byKey[key]
	if !found {
		return value, false
	}
	l.order.MoveToFront(element)
	return element.Value.(entry[K, V]).value, true
}

// put keeps the value of key, and forgets the value that was not used for the longest time where there are too many. Two
// callers that computed the same value at once both put it, which does no harm.
func (l *lru[K, V]) put(key K, value V) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if element, found := l.byKey[key]; found {
		element.Value = entry[K, V]{key, value}
		l.order.MoveToFront(element)
		return
	}
	l.byKey[key] = l.order.PushFront(entry[K, V]{key, value})
	if l.order.Len() > l.capacity {
		last := l.order.Back()
		l.order.Remove(last)
		delete(l.byKey, last.Value.(entry[K, V]).key)
	}
}

func (l *lru[K, V]) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.order.Len()
}
