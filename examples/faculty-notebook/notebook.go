package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// A note is what one blob of the pile holds, as JSON.
type note struct {
	Faculty string    `json:"faculty"` // always "notebook": tells notes from the pile's other blobs
	Text    string    `json:"text"`
	Tags    []string  `json:"tags,omitempty"`
	Author  string    `json:"author,omitempty"`
	At      time.Time `json:"at"`
}

const (
	faculty  = "notebook"
	maxText  = 64 << 10
	maxTags  = 16
	maxFound = 100
)

// A notebook keeps the pile's notes in memory as well, read up to where it last looked.
type notebook struct {
	pile   pile
	author string
	now    func() time.Time

	mu    sync.Mutex // guards what follows, and this process's use of the pile
	notes []note
	read  int64
}

func newNotebook(path, author string, now func() time.Time) *notebook {
	return &notebook{pile: pile{path}, author: author, now: now}
}

// refresh reads what was appended since, by anybody.
func (n *notebook) refresh() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	end, err := n.pile.scan(n.read, func(payload []byte) {
		var one note
		if json.Unmarshal(payload, &one) == nil && one.Faculty == faculty {
			n.notes = append(n.notes, one)
		}
	})
	n.read = end
	return err
}

// add appends a note and returns its hash in the pile.
func (n *notebook) add(text string, tags []string) (string, error) {
	switch {
	case strings.TrimSpace(text) == "":
		return "", errors.New("text is empty")
	case len(text) > maxText || !utf8.ValidString(text):
		return "", fmt.Errorf("text must be UTF-8 of at most %d bytes", maxText)
	case len(tags) > maxTags:
		return "", fmt.Errorf("there are %d tags; the most is %d", len(tags), maxTags)
	}
	for _, tag := range tags {
		if tag == "" || len(tag) > 64 || strings.ContainsFunc(tag, func(r rune) bool { return r <= ' ' }) {
			return "", fmt.Errorf("tag %q must be 1 to 64 characters without spaces", tag)
		}
	}
	at := n.now().UTC()
	payload, err := json.Marshal(note{Faculty: faculty, Text: text, Tags: tags, Author: n.author, At: at})
	if err != nil {
		return "", err
	}
	n.mu.Lock() // a reader could see the beginning of what is being written
	defer n.mu.Unlock()
	return n.pile.append(payload, at)
}

// search returns the newest notes that hold every word of query, in their text or as a tag, and how many there are.
func (n *notebook) search(query string, limit int) ([]note, int, error) {
	if limit <= 0 || limit > maxFound {
		limit = 20
	}
	if err := n.refresh(); err != nil {
		return nil, 0, err
	}
	words := strings.Fields(strings.ToLower(query))
	n.mu.Lock()
	defer n.mu.Unlock()
	found, total := []note{}, 0
	for _, one := range slices.Backward(n.notes) {
		if !one.matches(words) {
			continue
		}
		total++
		if len(found) < limit {
			found = append(found, one)
		}
	}
	return found, total, nil
}

func (n note) matches(words []string) bool {
	text := strings.ToLower(n.Text + " " + strings.Join(n.Tags, " "))
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
