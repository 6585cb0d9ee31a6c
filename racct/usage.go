package racct

import (
	"fmt"
	"strconv"
	"strings"
)

// A Usage is what one jail uses now, by rctl(8) resource. Resident memory is up to a second old, and on FreeBSD 13 the CPU
// share is a guess that must not be billed.
type Usage map[string]int64

// ParseUsage reads what rctl_get_racct(2) returns: "resource=amount" separated by commas.
func ParseUsage(text string) (Usage, error) {
	usage := make(Usage)
	for word := range strings.SplitSeq(text, ",") {
		if word == "" {
			continue
		}
		resource, amount, ok := strings.Cut(word, "=")
		if !ok || resource == "" {
			return nil, fmt.Errorf("cannot parse usage %.100q: want resource=amount", word)
		}
		n, err := strconv.ParseInt(amount, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("cannot parse usage %.100q: %w", word, err)
		}
		usage[resource] = n
	}
	return usage, nil
}

// Add adds another jail's usage, for the sum over one tenant's jobs.
func (u Usage) Add(other Usage) {
	for resource, n := range other {
		u[resource] += n
	}
}
