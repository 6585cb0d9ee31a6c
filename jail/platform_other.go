//go:build !freebsd

package jail

// Where a sandbox is a process and the namespaces it holds, it ends with its daemon: nothing is prepared, and nothing comes
// back.

const keepsSessions = false

func (m *Manager) prepareHost() error { return nil }

func (m *Manager) leave(object kernelObject) { object.Kill() }

// hostMounts is empty: all mounts of sandboxes are in mount namespaces of their own.
func hostMounts() ([]mounted, error) { return nil, nil }

func judgeAppendOnly(string) AppendOnly { return AppendOnly{Enforced: true, Reason: appendOnlyReason} }

// unlock does nothing: what an owner may set on a file does not keep root from removing it.
func unlock(int, string) {}
