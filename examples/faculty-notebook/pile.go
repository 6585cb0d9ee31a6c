package main

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"lukechampine.com/blake3"
)

// A pile is an append-only file of records (the Triblespace pile format). A blob record of its first version, which every
// reader understands, is a header of 64 bytes (16 of a marker, 8 of milliseconds since 1970, 8 of the payload's length, both
// little-endian, 32 of the payload's BLAKE3) and the payload, filled up to a multiple of 64 with zeros.
type pile struct{ path string }

const (
	align = 64
	// alignV3 is the size of headers, and what records are filled up to, in the format's third version.
	alignV3 = 256
	// maxPayload bounds what is read into memory for one record.
	maxPayload = 1 << 20
)

// A form is what a record's marker says of its layout.
type form struct {
	blob   bool // the record has a payload
	header int
}

// forms are the records that can be stepped over, by their markers in hexadecimal.
func forms() map[string]form {
	return map[string]form{
		blobMarker:                         {true, align},
		"2bc991a7f5d5d2a3a468c53b0aa03504": {false, align},   // branch
		"e888cc787202d2ae4c654bfe9699c430": {false, align},   // branch tombstone
		"9c33eeb525065a62eaec4be43dcc355a": {true, alignV3},  // blob
		"ac363d04afe1af17b39581b1e23021d7": {false, alignV3}, // branch
		"d0cba0c8eaab4c0c73121c3205671e4f": {false, alignV3}, // branch tombstone
		"8f3eefedecd491f63f6eaaa5fd6f3d5e": {false, alignV3}, // wanted
		"2d76662dff0187ec36a8c90b12bb8b0d": {false, alignV3}, // no longer wanted
	}
}

const blobMarker = "1e08b022ff2f47b6ebacf1d68eb35d96"

// append writes one blob and returns its hash when it is on disk. One write(2) with O_APPEND keeps it whole beside those of other
// writers.
func (p pile) append(payload []byte, now time.Time) (hash string, err error) {
	f, err := os.OpenFile(p.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return "", fmt.Errorf("cannot open the pile: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("cannot look at the pile: %w", err)
	}
	if info.Size()%align != 0 {
		return "", fmt.Errorf("the pile ends in the middle of a record, at byte %d: somebody's write was cut off", info.Size())
	}
	digest := blake3.Sum256(payload)
	if _, err := f.Write(record(payload, digest, now)); err != nil {
		return "", fmt.Errorf("cannot append to the pile: %w", err)
	}
	if err := f.Sync(); err != nil {
		return "", fmt.Errorf("cannot append to the pile: %w", err)
	}
	return hex.EncodeToString(digest[:]), nil
}

func record(payload []byte, digest [32]byte, now time.Time) []byte {
	marker, err := hex.DecodeString(blobMarker)
	if err != nil {
		panic("internal error: the marker is no hexadecimal")
	}
	b := marker
	b = binary.LittleEndian.AppendUint64(b, uint64(now.UnixMilli()))
	b = binary.LittleEndian.AppendUint64(b, uint64(len(payload)))
	b = append(b, digest[:]...)
	b = append(b, payload...)
	return append(b, make([]byte, padding(int64(len(payload)), align))...)
}

func padding(n, to int64) int64 { return (to - n%to) % to }

// scan calls each with the blobs from byte offset on, those over 1 MiB left out, and returns where the last whole record ends. A
// record that is unknown or cut off ends the scan with an error that says where.
func (p pile) scan(offset int64, each func(payload []byte)) (end int64, err error) {
	f, err := os.Open(p.path)
	if err != nil {
		return offset, fmt.Errorf("cannot open the pile: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return offset, fmt.Errorf("cannot look at the pile: %w", err)
	}
	known := forms()
	for offset < info.Size() {
		next, err := step(f, offset, info.Size(), known, each)
		if err != nil {
			return offset, fmt.Errorf("the pile cannot be read from byte %d on: %w", offset, err)
		}
		offset = next
	}
	return offset, nil
}

var errCutOff = errors.New("the record is cut off")

// step reads one record and returns where the next one begins.
func step(f io.ReaderAt, offset, size int64, known map[string]form, each func([]byte)) (int64, error) {
	var header [align]byte
	if _, err := f.ReadAt(header[:], offset); errors.Is(err, io.EOF) {
		return 0, errCutOff
	} else if err != nil {
		return 0, err
	}
	form, ok := known[hex.EncodeToString(header[:16])]
	if !ok {
		return 0, fmt.Errorf("its marker %x is unknown", header[:16])
	}
	begin := offset + int64(form.header)
	if begin > size {
		return 0, errCutOff
	}
	if !form.blob {
		return begin, nil
	}
	length := binary.LittleEndian.Uint64(header[24:32])
	if length > uint64(size-begin) {
		return 0, errCutOff
	}
	end := begin + int64(length)
	next := end + padding(int64(length), int64(form.header))
	if next > size {
		return 0, errCutOff
	}
	if length > maxPayload {
		return next, nil
	}
	payload := make([]byte, length)
	if _, err := f.ReadAt(payload, begin); err != nil {
		return 0, err
	}
	// What does not have its own hash was damaged, and is nobody's note.
	if digest := blake3.Sum256(payload); bytes.Equal(digest[:], header[32:]) {
		each(payload)
	}
	return next, nil
}
