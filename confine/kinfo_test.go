package confine

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"
)

// record is a kinfo_proc of a confined worker.
func record(change func(put func(at int, v int32))) []byte {
	b := make([]byte, kinfoSize)
	put := func(at int, v int32) { binary.LittleEndian.PutUint32(b[at:], uint32(v)) }
	for at, v := range map[int]int32{0: kinfoSize, 72: 4321, 76: 99, 168: 990_001, 172: 990_001, 176: 990_001, 180: 990_001, 184: 990_001, 192: 990_001, 588: 1, 592: 7, 596: 5} {
		put(at, v)
	}
	binary.LittleEndian.PutUint16(b[188:], 1)
	binary.LittleEndian.PutUint64(b[336:], 1_700_000_000)
	binary.LittleEndian.PutUint64(b[344:], 42)
	b[388] = 3
	change(put)
	return b
}

func TestKinfo(t *testing.T) {
	k, ok := decodeKinfo(record(func(func(int, int32)) {}))
	want := kinfo{pid: 4321, parent: 99, uid: 990_001, ruid: 990_001, suid: 990_001, gid: 990_001, rgid: 990_001, egid: 990_001, groups: 1, jail: 7,
		threads: 5, start: 1_700_000_000_000_042, state: 3, capabilities: true}
	if !ok || k != want {
		t.Errorf("got %+v, %v", k, ok)
	}
	if err := k.checkUser(990_001, 990_001); err != nil {
		t.Error(err)
	}
	if err := k.checkJail(7); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]struct {
		at    int
		value int32
	}{
		"effective uid": {168, 0}, "real uid": {172, 0}, "saved uid": {176, 0}, "real gid": {180, 0}, "saved gid": {184, 0}, "effective gid": {192, 0},
		"groups": {188, 3},
	} {
		k, _ := decodeKinfo(record(func(put func(int, int32)) { put(change.at, change.value) }))
		if k.checkUser(990_001, 990_001) == nil {
			t.Errorf("%s: a process with another is taken for the worker", name)
		}
	}
	for _, jid := range []int{0, 8, -7} {
		if k.checkJail(jid) == nil {
			t.Errorf("jail %d: taken for jail 7", jid)
		}
	}
	if _, ok := decodeKinfo(record(func(put func(int, int32)) { put(0, kinfoSize+8) })); ok {
		t.Error("a record of another size was read")
	}
	if k, _ := decodeKinfo(record(func(put func(int, int32)) { put(588, 0) })); k.capabilities {
		t.Error("capability mode is seen where there is none")
	}
}

func files(list ...openFile) []byte {
	var b []byte
	for _, f := range list {
		one := make([]byte, 64)
		binary.LittleEndian.PutUint32(one, 64)
		binary.LittleEndian.PutUint32(one[4:], uint32(f.kind))
		binary.LittleEndian.PutUint32(one[8:], uint32(f.fd))
		b = append(b, one...)
	}
	return b
}

func TestFiles(t *testing.T) {
	good := []openFile{{-1, 1}, {-2, 1}, {-5, 1}, {0, 3}, {1, 3}, {2, 3}, {3, 2}, {4, 5}}
	list, ok := decodeFiles(files(good...))
	if !ok || !slices.Equal(list, good) {
		t.Fatalf("got %v, %v", list, ok)
	}
	if err := checkFiles(good); err != nil {
		t.Error(err)
	}
	for name, bad := range map[string][]openFile{
		"a file":           append(slices.Clone(good), openFile{5, 1}),
		"another socket":   append(slices.Clone(good), openFile{5, 2}),
		"a second kqueue":  append(slices.Clone(good), openFile{5, 5}),
		"a file as input":  append([]openFile{{0, 1}}, good[4:]...),
		"no doors":         good[:6],
		"nothing":          nil,
		"a process handle": append(slices.Clone(good), openFile{6, 11}),
	} {
		if checkFiles(bad) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, cut := range []int{1, 23, 63, 65} {
		if _, ok := decodeFiles(files(good...)[:cut]); ok {
			t.Errorf("%d bytes were read", cut)
		}
	}
}

func FuzzFiles(f *testing.F) {
	f.Add(files(openFile{0, 3}, openFile{1, 3}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if list, ok := decodeFiles(b); ok && len(list) > len(b)/24 {
			t.Errorf("%d records of %d bytes", len(list), len(b))
		}
	})
}

func FuzzWord(f *testing.F) {
	f.Add([]byte(`{"attempts":[{"layer":"user","attempt":"x","expect":"EPERM","errno":"EPERM","pass":true}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		w, err := parseWord(b)
		if err != nil {
			return
		}
		// Whatever it says, without a look from outside nothing is green.
		if combine(nil, w.Attempts, func(Layer) bool { return false }).Err() == nil {
			t.Errorf("believed: %q", b)
		}
	})
}

func FuzzOrders(f *testing.F) {
	f.Add([]byte(`{"bounds":{"address_bytes":2147483648,"data_bytes":536870912,"threads":32,"cpu_seconds":60,"files":16},"parent":1}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := readOrders(bufio.NewReaderSize(bytes.NewReader(b), 16))
		if err == nil && o.Bounds.Validate() != nil {
			t.Errorf("%q gives %+v", b, o)
		}
	})
}

// Limits are the same on both sides, whatever a request asks for.
func TestRlimits(t *testing.T) {
	b := Bounds{}.WithDefaults()
	if err := b.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, list := range map[string][]rlimit{"linux": linuxRlimits(b), "freebsd": freebsdRlimits(b)} {
		seen := make(map[int]bool)
		for _, l := range list {
			if seen[l.resource] || l.name == "" {
				t.Errorf("%s: %+v", name, l)
			}
			seen[l.resource] = true
		}
		core := map[string]int{"linux": 4, "freebsd": 4}[name]
		if !seen[core] || !seen[1] || !seen[0] {
			t.Errorf("%s: limits %v", name, seen)
		}
	}
	for _, bad := range []Bounds{{}, {AddressBytes: 1, DataBytes: 1, Threads: 1, CPUSeconds: 1, Files: 1}} {
		if bad.Validate() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// A report without a layer, or with one that is not verified, is no report.
func TestReport(t *testing.T) {
	var r Report
	for _, l := range Layers() {
		r.Layers = append(r.Layers, LayerState{Name: l, OK: true})
	}
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	for i, l := range Layers() {
		short := Report{Layers: slices.Delete(slices.Clone(r.Layers), i, i+1)}
		if err := short.Err(); err == nil || !strings.Contains(err.Error(), string(l)) {
			t.Errorf("without %s: %v", l, err)
		}
		wrong := Report{Layers: slices.Clone(r.Layers)}
		wrong.Layers[i].OK, wrong.Layers[i].Detail = false, "broken"
		if err := wrong.Err(); err == nil || !strings.Contains(err.Error(), string(l)+" (broken)") {
			t.Errorf("with a broken %s: %v", l, err)
		}
	}
}
