package jail

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"
)

// A worker's jail has no network, no files of the host, no child jails and no ability, whatever the kernel's defaults are.
func TestWorkerParams(t *testing.T) {
	name := NewWorkerName("pg")
	list, err := workerParams(name)
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string][]byte)
	for _, p := range list {
		if _, twice := values[p.name]; twice {
			t.Errorf("%s is said twice", p.name)
		}
		values[p.name] = p.value
	}
	for key, want := range map[string]string{"name": name, "path": "/var/empty", "host.hostname": "worker"} {
		if got := values[key]; !bytes.Equal(got, append([]byte(want), 0)) {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	for key, want := range map[string]uint32{"ip4": 0, "ip6": 0, "children.max": 0, "securelevel": 3, "enforce_statfs": 2, "sysvshm": 0, "sysvmsg": 0, "sysvsem": 0} {
		got, ok := values[key]
		if !ok || len(got) != 4 || binary.NativeEndian.Uint32(got) != want {
			t.Errorf("%s is %v, want %d", key, got, want)
		}
	}
	for _, key := range []string{"persist", "allow.noraw_sockets", "allow.nomount", "allow.nochflags", "allow.nosysvipc"} {
		if _, ok := values[key]; !ok {
			t.Errorf("%s is missing", key)
		}
	}
	if _, ok := values["allow.nosuser"]; ok {
		t.Error("root is denied before the worker has given it up")
	}
}

// Only what was made here is ever taken for a leftover.
func TestWorkerNames(t *testing.T) {
	name := NewWorkerName("pg")
	made, ok := WorkerMade("pg", name)
	if age := time.Since(made); !ok || age < -time.Second || age > time.Minute {
		t.Errorf("%s was made %v ago, %v", name, age, ok)
	}
	if NewWorkerName("pg") == name {
		t.Error("a name came twice")
	}
	if err := validJailPart(name); err != nil {
		t.Error(err)
	}
	const id = "01arz3ndektsv4rrffq69g5fav"
	for _, other := range []string{"pg-" + id, "pgw-", "pgw-alice", "w-" + id, "xpgw-" + id, "pgw-" + id + ".x", "pgw-01ARZ3NDEKTSV4RRFFQ69G5FAV", "pg-alice"} {
		if _, ok := WorkerMade("pg", other); ok {
			t.Errorf("%s is taken for a worker's jail", other)
		}
	}
	if _, ok := WorkerMade("", "w-"+id); ok {
		t.Error("without a prefix a jail is taken for a worker's")
	}
}
