package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Bytes is a size as the file writes it: a plain number of bytes, or a number with a binary unit ("4MiB", "2.5GiB").
// Decimal units and bare letters are refused: whether "4M" is 4,000,000 or 4,194,304 depends on whom one asks.
type Bytes int64

// units are the accepted suffixes, the largest first, so that String finds the one that fits.
func units() []struct {
	suffix string
	size   int64
} {
	return []struct {
		suffix string
		size   int64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}
}

// UnmarshalText reads a size. TOML integers arrive here as their digits.
func (b *Bytes) UnmarshalText(text []byte) error {
	number, size := string(text), int64(1)
	for _, u := range units() {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, size = strings.TrimSuffix(rest, " "), u.size
			break
		}
	}
	if number == "" || strings.Trim(number, "0123456789.") != "" {
		return fmt.Errorf("%q is not a size: write a number of bytes or, for example, \"64KiB\", \"4MiB\", \"2.5GiB\"", text)
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return fmt.Errorf("%q is not a size: its number cannot be read", text)
	}
	f *= float64(size)
	// Above 2^53 a float no longer holds every whole number, and no real size is that large.
	if f != math.Trunc(f) || f > 1<<53 {
		return fmt.Errorf("%q is not a whole number of bytes below 8PiB", text)
	}
	*b = Bytes(f)
	return nil
}

// String writes the size in the largest unit that divides it, as UnmarshalText reads it.
func (b Bytes) String() string {
	for _, u := range units() {
		if b != 0 && int64(b)%u.size == 0 {
			return strconv.FormatInt(int64(b)/u.size, 10) + u.suffix
		}
	}
	return "0B"
}

// duration is a time span as the file writes it: "45s", "500ms", "1h30m". It stays text until it is checked, so that the
// decoder refuses a bare number, whose unit would be a guess.
type duration string

// value reads the span.
func (d duration) value() (time.Duration, error) {
	v, err := time.ParseDuration(string(d))
	if err != nil || v < 0 {
		return 0, errors.New(`it must be a duration such as "500ms", "45s" or "12h"`)
	}
	return v, nil
}

// must reads a span that was checked.
func (d duration) must() time.Duration {
	v, err := d.value()
	if err != nil {
		panic("internal error: unchecked duration " + string(d))
	}
	return v
}
