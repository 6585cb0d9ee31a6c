package localapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"playground/fault"
)

// Byte strings are base64 inside JSON, and encoding and parsing that costs some 10 ms a mebibyte on each side. So a Carrier's
// may follow the JSON value raw, in one body whose header names their sizes. Plain JSON stays valid in both directions:
// a caller that does not know of this (curl) gets and sends base64.
const (
	blobHeader = "Playground-Blobs" // sizes in order, "3,0,4096"
	blobType   = "application/x-playground-blobs"
	maxBlobs   = 1 << 16 // more than any page has chunks; the header bounds it first
)

// A Carrier is a pointer to a value whose large byte strings travel beside the JSON. After the JSON is decoded, Blobs
// must name as many places, in the same order, as it did when it was encoded. The value must be its sender's own: the
// places are emptied while it is encoded.
type Carrier interface {
	Blobs() []*[]byte
}

// encodeBlobs returns the body for v and the value of its header.
func encodeBlobs(v Carrier) (body []byte, sizes string, err error) {
	places := v.Blobs()
	blobs := make([][]byte, len(places))
	total := 0
	var list strings.Builder
	for i, p := range places {
		blobs[i], *p = *p, nil
		total += len(blobs[i])
		if i > 0 {
			list.WriteByte(',')
		}
		list.WriteString(strconv.Itoa(len(blobs[i])))
	}
	value, err := encode(v)
	for i, p := range places {
		*p = blobs[i]
	}
	if err != nil {
		return nil, "", err
	}
	body = make([]byte, 0, len(value)+total)
	body = append(body, value...)
	for _, b := range blobs {
		body = append(body, b...)
	}
	return body, list.String(), nil
}

// splitBlobs cuts a body into its JSON value and its blobs, which share the body's memory.
func splitBlobs(body []byte, header string) (value []byte, blobs [][]byte, err error) {
	list := strings.SplitN(header, ",", maxBlobs+1)
	if len(list) > maxBlobs {
		return nil, nil, errors.New("too many blobs")
	}
	blobs = make([][]byte, len(list))
	rest := body
	for i := len(list) - 1; i >= 0; i-- {
		n, err := strconv.Atoi(list[i])
		if err != nil || n < 0 || n > len(rest) {
			return nil, nil, fmt.Errorf("%.20q is not the size of a blob in a body of %d bytes", list[i], len(body))
		}
		if cut := len(rest) - n; n > 0 {
			blobs[i] = rest[cut:len(rest):len(rest)]
			rest = rest[:cut]
		}
	}
	return rest, blobs, nil
}

// placeBlobs puts the blobs where v wants them.
func placeBlobs(v any, blobs [][]byte) error {
	c, ok := v.(Carrier)
	if !ok {
		return errors.New("it takes no blobs")
	}
	places := c.Blobs()
	if len(places) != len(blobs) {
		return fmt.Errorf("%d blobs for %d places", len(blobs), len(places))
	}
	for i, p := range places {
		*p = blobs[i]
	}
	return nil
}

// decodeBlobs is Decode for a request with blobs.
func decodeBlobs(r *http.Request, v any) error {
	body, err := readAll(r)
	if err != nil {
		return decodeError(err)
	}
	value, blobs, err := splitBlobs(body, r.Header.Get(blobHeader))
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "cannot read request")
	}
	if err := decodeStrict(bytes.NewReader(value), v); err != nil {
		return err
	}
	if err := placeBlobs(v, blobs); err != nil {
		return fault.Wrap(fault.Invalid, err, "cannot read request")
	}
	return nil
}

// readAll reads the body, in one buffer when its length is told; Handler has refused a length over the bound.
func readAll(r *http.Request) ([]byte, error) {
	if r.ContentLength < 0 {
		return io.ReadAll(r.Body)
	}
	// One byte more: the read that meets the end lets net/http watch the connection from then on.
	body := make([]byte, r.ContentLength+1)
	n, err := io.ReadFull(r.Body, body)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil
	}
	return body[:n], err
}

// ReplyBlobs is Reply for a Carrier, with its byte strings raw if the caller takes them so.
func ReplyBlobs(w http.ResponseWriter, r *http.Request, v Carrier) error {
	if r.Header.Get("Accept") != blobType {
		return Reply(w, v)
	}
	body, sizes, err := encodeBlobs(v)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "cannot encode answer")
	}
	if sizes != "" { // no places: no blobs
		w.Header().Set(blobHeader, sizes)
	}
	send(w, http.StatusOK, blobType, body)
	return nil
}

// readAnswer decodes a successful answer.
func readAnswer(resp *http.Response, body []byte, out any) error {
	header, ok := resp.Header[blobHeader]
	if !ok {
		return json.Unmarshal(body, out)
	}
	value, blobs, err := splitBlobs(body, header[0])
	if err != nil {
		return err
	}
	if err := json.Unmarshal(value, out); err != nil {
		return err
	}
	return placeBlobs(out, blobs)
}
