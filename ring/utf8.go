package ring

import "unicode/utf8"

// incompleteTail returns how many bytes at the end of p begin a rune that p does not finish: 0 to 3. Bytes that no
// continuation can make valid do not count.
func incompleteTail(p []byte) int {
	for i := 1; i < utf8.UTFMax && i <= len(p); i++ {
		if !utf8.RuneStart(p[len(p)-i]) {
			continue
		}
		if utf8.FullRune(p[len(p)-i:]) {
			return 0
		}
		return i
	}
	return 0
}

// wholeRunes returns the longest length, at most n, at which p may be cut without splitting a rune. It is n less 3 at
// the least, and n itself for what is not UTF-8.
func wholeRunes(p []byte, n int) int {
	if n == len(p) {
		return n
	}
	return n - incompleteTail(p[:n])
}
