// Package jobinit is the process above one job's command on Linux: the init of the job's pid namespace. It confines itself,
// runs the command, and ends with all that the command left. It is lean, since every job has one: what a job waits for is
// the start of this program, unless the sandbox's holder has a ready one.
package jobinit

// A Start is the first message on a job's connection. It comes with three descriptors: standard input, output and error.
// Strings are bytes because a command may hold any of them but NUL.
type Start struct {
	Argv [][]byte `json:"argv"` // Argv[0] is an absolute path inside the sandbox
	Env  [][]byte `json:"env"`
	Dir  []byte   `json:"dir"` // absolute
	// Once: the init is not to be used again, because it is in the job's own cgroup.
	Once bool `json:"once,omitempty"`
}

// A Kill asks the init to signal everything in the job, itself excepted.
type Kill struct {
	Signal int `json:"signal"`
}

// An End is what the init says of the end. The first, with Leader set, comes as soon as the leader has ended and the
// rest is being killed; the last when no process is left. A command that could not be started has one with Refused alone.
type End struct {
	Leader   bool   `json:"leader,omitempty"`
	Refused  string `json:"refused,omitempty"` // why, in words for the tenant
	Status   uint32 `json:"status"`            // as wait4(2) gives it
	Killed   int    `json:"killed"`            // processes that had to be killed
	DiskFull bool   `json:"disk_full,omitempty"`
	// Empty: the init had no child left. Where no pid namespace gives the proof, this is it.
	Empty bool `json:"empty,omitempty"`
	// Free: the job ended by itself and left nothing; the init waits for its owner to look, and to close the connection.
	Free bool `json:"free,omitempty"`
}
