package config

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBytes(t *testing.T) {
	tests := []struct {
		text string
		want Bytes
		ok   bool
	}{
		{"0", 0, true}, {"17", 17, true}, {"17B", 17, true}, {"4KiB", 4096, true}, {"4 MiB", 4 << 20, true},
		{"2.5GiB", 2560 << 20, true}, {"1TiB", 1 << 40, true}, {"8191TiB", 8191 << 40, true},
		{"", 0, false}, {"KiB", 0, false}, {"4M", 0, false}, {"4MB", 0, false}, {"4mib", 0, false}, {"-1", 0, false},
		{"1e3", 0, false}, {"0x10", 0, false}, {"inf", 0, false}, {"1_000", 0, false}, {"1.5", 0, false}, {".", 0, false},
		{"1..2KiB", 0, false}, {" 4KiB", 0, false}, {"4  KiB", 0, false}, {"9000TiB", 0, false}, {"99999999999999999999", 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			var got Bytes
			if err := got.UnmarshalText([]byte(tt.text)); (err == nil) != tt.ok || got != tt.want {
				t.Errorf("UnmarshalText(%q) = %d, %v; want %d, ok %v", tt.text, got, err, tt.want, tt.ok)
			}
		})
	}
}

// What String writes, UnmarshalText reads back.
func TestBytesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := Bytes(rapid.Int64Range(0, 1<<53).Draw(t, "size"))
		var b Bytes
		if err := b.UnmarshalText([]byte(size.String())); err != nil || b != size {
			t.Fatalf("%d -> %q -> %d, %v", size, size, b, err)
		}
	})
}

func TestBytesString(t *testing.T) {
	for size, want := range map[Bytes]string{
		0: "0B", 1024: "1KiB", 1025: "1025B", 64 << 10: "64KiB", 5 << 29: "2560MiB", 1 << 50: "1024TiB", -1: "-1B",
	} {
		if got := size.String(); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", int64(size), got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for text, want := range map[duration]time.Duration{
		"0s": 0, "500ms": 500 * time.Millisecond, "1h30m": 90 * time.Minute,
	} {
		if got, err := text.value(); err != nil || got != want || text.must() != want {
			t.Errorf("%q = %v, %v", text, got, err)
		}
	}
	for _, text := range []duration{"", "60", "-1h", "1 h", "1d", "many"} {
		if got, err := text.value(); err == nil {
			t.Errorf("%q = %v, want an error", text, got)
		}
	}
}
