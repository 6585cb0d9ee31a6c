package leaf

import (
	"crypto/rand"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// newName returns the leaf's own part of its jail's name. It is never used again: limits are keyed by name, and a dying
// jail still counts under its own.
func newName() string {
	return namePrefix + strings.ToLower(ulid.MustNew(ulid.Now(), rand.Reader).String())
}

const namePrefix = "j"

// IsName reports whether a jail's full name is that of a job's leaf under a tenant's jail "<prefix>-<tenant>", made here or
// by an earlier process.
func IsName(prefix, full string) bool {
	parent, own, ok := strings.Cut(full, ".")
	if !ok || prefix == "" || !strings.HasPrefix(parent, prefix+"-") || len(parent) == len(prefix)+1 {
		return false
	}
	id, ok := strings.CutPrefix(own, namePrefix)
	if !ok || id != strings.ToLower(id) {
		return false
	}
	_, err := ulid.ParseStrict(id)
	return err == nil
}

// MadeBefore reports whether a leaf was named before a moment, by the clock of the host as it was then. It is false for what is
// no leaf's name.
func MadeBefore(full string, moment time.Time) bool {
	_, own, _ := strings.Cut(full, ".")
	id, err := ulid.ParseStrict(strings.TrimPrefix(own, namePrefix))
	return err == nil && ulid.Time(id.Time()).Before(moment.Truncate(time.Millisecond))
}
