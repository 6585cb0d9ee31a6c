package ring_test

import (
	"testing"

	"playground/ring"
)

// FuzzLog reads the input as a program of writes and reads. The seeds are in testdata/fuzz/FuzzLog.
func FuzzLog(f *testing.F) {
	f.Fuzz(func(t *testing.T, maxBytes uint16, maxChunks uint8, program []byte) {
		bytesBound, chunksBound := int(maxBytes)+4, int(maxChunks)+1
		m := newModel(bytesBound, chunksBound, false)
		var cursor int64
		for len(program) > 0 {
			op, rest := program[0], program[1:]
			n := min(int(op>>2), len(rest))
			switch op & 3 {
			case 0, 1: // write the next n bytes
				m.write(ring.Stream(op&3+1), rest[:n])
				rest = rest[n:]
			case 2: // read on
				page, err := m.check(cursor, n, chunksBound)
				if err != nil {
					t.Fatal(err)
				}
				cursor = page.Next
			case 3: // read from anywhere
				if _, err := m.check(int64(op)*int64(len(m.data))/255, n, chunksBound); err != nil {
					t.Fatal(err)
				}
			}
			program = rest
			if err := m.checkBounds(bytesBound); err != nil {
				t.Fatal(err)
			}
		}
		m.close()
		for {
			page, err := m.check(cursor, 7, chunksBound)
			if err != nil {
				t.Fatal(err)
			}
			cursor = page.Next
			if !page.More {
				return
			}
		}
	})
}
