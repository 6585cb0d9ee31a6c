package record

import (
	"context"
	"math"
	"slices"
	"sync"
)

// A configCache keeps the configuration by topic, until the next record on its thread.
type configCache struct {
	mu      sync.Mutex // mu guards the rest
	version int64      // counts what was forgotten
	topics  map[string][]Record
}

// maxTopics bounds the cache: a topic that nobody ever wrote is remembered, too.
const maxTopics = 256

// Config returns the LEARN records of the configuration thread whose body.topic is topic, by ascending sequence. The latest of a
// name wins, which is for the caller to fold. It is cheap, and never older than an append that this Log acknowledged: of
// what another process appends to the thread, it hears when it next appends there itself.
func (l *Log) Config(ctx context.Context, topic string) ([]Record, error) {
	records, version, ok := l.config.get(topic)
	if ok {
		return slices.Clone(records), nil
	}
	records, err := l.records(ctx, "SELECT "+columns+` FROM records WHERE thread = ? AND act = 'LEARN'
		AND json_type(body, '$.topic') = 'text' AND json_extract(body, '$.topic') = ? ORDER BY sequence`, []any{ConfigThread, topic}, math.MaxInt)
	if err != nil {
		return nil, err
	}
	l.config.put(topic, records, version)
	return slices.Clone(records), nil
}

func (c *configCache) get(topic string) (records []Record, version int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	records, ok = c.topics[topic]
	return records, c.version, ok
}

// put keeps what was read, unless it was forgotten while it was being read.
func (c *configCache) put(topic string, records []Record, version int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if version != c.version {
		return
	}
	if c.topics == nil || len(c.topics) >= maxTopics {
		c.topics = make(map[string][]Record)
	}
	c.topics[topic] = records
}

func (c *configCache) forget(added []Record) {
	if !slices.ContainsFunc(added, func(r Record) bool { return r.Thread == ConfigThread }) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	c.topics = nil
}
