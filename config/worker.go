package config

import "time"

// Worker bounds the confined process of one sandboxed run.
type Worker struct {
	UIDBase     int           // first of the user and group ids of workers, where the root daemons run as root
	MemoryBytes int64         // that it may write to
	CPU         time.Duration // processor time
}

// WorkerIDs is how many user ids, from Worker.UIDBase on, are for workers alone.
const WorkerIDs = 256

func (v rawWork) checkWorker(c *checker, sandbox rawSandbox) {
	between(c, "work.worker_uid_base", v.WorkerUIDBase, 1_000, 1<<31)
	// The ranges of tenants begin at sandbox.uid_base and go up.
	if v.WorkerUIDBase+WorkerIDs > sandbox.UIDBase {
		c.refuse("work.worker_uid_base", v.WorkerUIDBase, "it and the %d ids after it must lie below sandbox.uid_base (%d)", WorkerIDs-1, sandbox.UIDBase)
	}
	between(c, "work.worker_memory", v.WorkerMemory, 128<<20, 1<<40)
	span(c, "work.worker_cpu", v.WorkerCPU, "1s", "168h")
}

func (v rawWork) buildWorker() Worker {
	return Worker{UIDBase: int(v.WorkerUIDBase), MemoryBytes: int64(v.WorkerMemory), CPU: v.WorkerCPU.must()}
}
