package jail

import (
	"regexp"

	"playground/fault"
)

var (
	namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,30}[a-z0-9]$`)
	onlyDigits  = regexp.MustCompile(`^[0-9]+$`)
)

// ValidName reports why name cannot be a tenant's, or nil. A name of digits alone would mean a jail's number (jail(8)).
func ValidName(name string) error {
	if !namePattern.MatchString(name) || onlyDigits.MatchString(name) {
		return fault.New(fault.Invalid, "tenant name %.64q is not valid", name).
			WithHint("use 2 to 32 of a-z, 0-9 and -, beginning and ending with a letter or digit, not digits alone")
	}
	return nil
}
