package localapi

import (
	"encoding/binary"
	"testing"
)

func TestDecodeXucred(t *testing.T) {
	good := func() []byte {
		b := make([]byte, 88)
		binary.NativeEndian.PutUint32(b[0:], 0)
		binary.NativeEndian.PutUint32(b[4:], 1001)
		binary.NativeEndian.PutUint16(b[8:], 2)
		binary.NativeEndian.PutUint32(b[12:], 5)
		binary.NativeEndian.PutUint32(b[80:], 4711)
		return b
	}
	p, err := decodeXucred(good())
	if err != nil || p.UID != 1001 || p.PID != 4711 || p.Err != nil {
		t.Errorf("got %+v, %v", p, err)
	}
	version := good()
	version[0] = 1
	for name, b := range map[string][]byte{"empty": nil, "short": good()[:84], "version": version} {
		if p, err := decodeXucred(b); err == nil {
			t.Errorf("%s: got %+v without an error", name, p)
		}
	}
}
