package keeper

import "playground/confine"

// A ground is what a worker stands on: on Linux, its ids.
type ground struct{ uid, gid, jid int }

// supported says why no worker can be confined here, or nil: a host that forbids namespaces is found out at the start.
func supported() error { return nil }

// prepare takes a slot's ids.
func (k *Keeper) prepare(slot int, _ confine.Bounds) (ground, error) {
	return ground{uid: k.uid(slot), gid: k.uid(slot)}, nil
}

// upkeep has nothing to do: a process's own limits cannot be taken away.
func (ground) upkeep() error { return nil }

// look has nothing to look at: a Linux worker's namespaces are its process's.
func (ground) look() (string, error) { return "", nil }

// leftover is what stands for all that may be left of a worker: here nothing does.
func (ground) leftover() []confine.Leftover { return nil }

// left looks for what is left of the worker.
func (w *Worker) left() ([]confine.Leftover, error) {
	if w.proc == nil {
		return nil, nil // no process was made
	}
	return w.proc.Left()
}
