package jail

// A State is whether a jail still exists in the kernel.
type State uint8

// The states. The zero value says nothing, so that a forgotten error cannot read as a proof.
const (
	Unknown State = iota
	Alive
	Dying // removed, but something still holds a reference: a zombie, a socket, an open file
	Gone  // the kernel knows no such jail any more
)

// String returns the state in one lower-case word.
func (s State) String() string {
	switch s {
	case Alive:
		return "alive"
	case Dying:
		return "dying"
	case Gone:
		return "gone"
	}
	return "unknown"
}

// A LeafSpec asks for the jail of one job, a child of its tenant's jail.
type LeafSpec struct {
	Parent string // the tenant's jail: Sandbox.Name
	// Name is the leaf's own part of its name, unused since the host booted: limits are keyed by name, and a dying jail
	// keeps them (rctl(4)). The full name, which FullName returns, is "PARENT.NAME".
	Name     string
	Root     string // Attachment.Root
	Hostname string // default: the parent's name
}

// FullName is what the kernel, rctl(8) and jls(8) call the leaf.
func (l LeafSpec) FullName() string { return l.Parent + "." + l.Name }

// An Info describes one jail of the host as the kernel does.
type Info struct {
	JID      int
	Parent   int    // 0 is the host
	Name     string // the full name
	Path     string
	State    State // Alive or Dying
	Children int   // living child jails
}
