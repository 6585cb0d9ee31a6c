// Package tenancy holds the rules about tenants that all who keep something of a tenant must agree on.
package tenancy

import "playground/fault"

// maxName keeps "<prefix>-<tenant>" and the names derived from it within what a jail, a host name and a user name take.
const maxName = 32

// ValidName returns a fault.Invalid error unless name is a tenant's: [a-z0-9][a-z0-9-]{0,30}[a-z0-9], not all digits,
// because jail(8) reads a number as a jail's id.
func ValidName(name string) error {
	bad := func(why string) error {
		return fault.New(fault.Invalid, "%.40q is not a tenant name: %s", name, why).
			WithHint("use 2 to %d lower-case letters, digits and hyphens, beginning and ending with a letter or digit, not digits alone", maxName)
	}
	if len(name) < 2 || len(name) > maxName {
		return bad("wrong length")
	}
	digits := 0
	for i := range len(name) {
		switch c := name[i]; {
		case '0' <= c && c <= '9':
			digits++
		case 'a' <= c && c <= 'z':
		case c == '-' && i > 0 && i < len(name)-1:
		case c == '-':
			return bad("a hyphen at an end")
		default:
			return bad("wrong character")
		}
	}
	if digits == len(name) {
		return bad("only digits")
	}
	return nil
}
