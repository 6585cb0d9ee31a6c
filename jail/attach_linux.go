package jail

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"playground/fault"
	"playground/jail/holder"
	"playground/seqpacket"
)

// attachTimeout bounds making a sandbox's holder; it takes some 20 ms.
const attachTimeout = 15 * time.Second

// An object is a tenant's holder, seen from jaild.
type object struct {
	cmd  *exec.Cmd
	gone chan struct{} // closed when the holder, and so all in its namespaces, has ended

	// mu makes each request and its answer one act.
	mu      sync.Mutex
	control *seqpacket.Conn
}

// An idRange is the host's ids of one tenant; base 0 means those of the daemon.
type idRange struct {
	base   uint32 // first uid and gid
	shared int    // gid of what tenants share
}

// attach starts a holder for the sandbox and returns when its namespaces and root are complete.
func attach(supervise string, cfg holder.Config, ids idRange, stderr *os.File) (*object, error) {
	exe, err := os.Open(supervise)
	if err != nil {
		return nil, fault.Hide(fault.Unavailable, err, "cannot find the program playground-supervise").WithHint("install Playground completely, or set host.libexec_dir")
	}
	defer exe.Close()
	ours, theirs, err := seqpacket.Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	cmd := &exec.Cmd{
		// By descriptor: the mapped user of a root daemon may not reach the program's folder.
		Path:       "/proc/self/fd/4",
		Args:       []string{"playground-supervise", "holder"},
		Env:        []string{"GOMAXPROCS=1"},
		Dir:        "/",
		Stderr:     stderr,
		ExtraFiles: []*os.File{theirs.File(), exe},
		// Its own session: a key typed at the daemon's terminal is not for the sandboxes.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if cfg.Isolated {
		isolate(cmd.SysProcAttr, cfg.Loopback, ids)
	}
	if err := cmd.Start(); err != nil {
		ours.Close()
		return nil, forbidden(err)
	}
	o := &object{cmd: cmd, gone: make(chan struct{}), control: ours}
	go func() {
		cmd.Wait()
		close(o.gone)
	}()
	data, err := json.Marshal(cfg)
	o.limit()
	if err == nil {
		err = ours.Send(data)
	}
	if err == nil {
		err = o.answer()
	}
	if err != nil {
		o.Kill()
		return nil, forbidden(err)
	}
	return o, nil
}

// isolate asks for the namespaces that make a sandbox. The tenant is uid 0 of its own user namespace, without a capability
// once its commands run. An ordinary user can map itself only; root maps a range that nobody else has.
func isolate(attr *syscall.SysProcAttr, ownNetwork bool, ids idRange) {
	attr.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
	if ownNetwork {
		attr.Cloneflags |= unix.CLONE_NEWNET
	}
	if ids.base == 0 {
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
		return
	}
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: int(ids.base), Size: uidRange}}
	attr.GidMappings = []syscall.SysProcIDMap{
		{ContainerID: 0, HostID: int(ids.base), Size: holder.SharedGID},
		{ContainerID: holder.SharedGID, HostID: ids.shared, Size: 1},
	}
	attr.GidMappingsEnableSetgroups = true
	// Becomes the mapped 0:0, without the daemon's groups.
	attr.Credential = &syscall.Credential{Groups: []uint32{holder.SharedGID}}
}

// forbidden turns a refusal of the host into a text that says what to change.
func forbidden(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL) {
		return fault.Hide(fault.Unavailable, err, "the host does not allow the namespaces a sandbox is made of").
			WithHint("run `playground doctor`: it finds the setting and prints the command that changes it")
	}
	return fault.Hide(fault.Unavailable, err, "cannot make the sandbox").WithHint("run `playground doctor`")
}

// limit bounds the next exchange with the holder.
func (o *object) limit() { o.control.SetDeadline(time.Now().Add(attachTimeout)) }

// answer reads the holder's reply to the request just made.
func (o *object) answer() error {
	data, _, err := o.control.Recv(make([]byte, 8192))
	if errors.Is(err, io.EOF) {
		return errors.New("the sandbox's holder ended; its messages are in the log")
	}
	if err != nil {
		return err
	}
	var reply holder.Reply
	if err := json.Unmarshal(data, &reply); err != nil {
		return fmt.Errorf("internal error: malformed reply of holder: %w", err)
	}
	if reply.Error != "" {
		return errors.New(reply.Error)
	}
	if reply.Busy > 0 {
		return fault.New(fault.Busy, "%d jobs are running in the sandbox", reply.Busy)
	}
	return nil
}

func (o *object) request(op string, files ...*os.File) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	err := o.exchange(op, files...)
	if err != nil && !errors.Is(err, fault.Busy) {
		o.Kill() // whatever state it is in, nothing may go on unseen
		return fault.Hide(fault.NotOpen, err, "the sandbox was lost")
	}
	return err
}

func (o *object) exchange(op string, files ...*os.File) error {
	o.limit()
	if err := o.send(op, files...); err != nil {
		return err
	}
	return o.answer()
}

func (o *object) send(op string, files ...*os.File) error {
	data, err := json.Marshal(holder.Request{Op: op})
	if err != nil {
		return err
	}
	return o.control.Send(data, files...)
}

// Connect returns a new connection to the holder, on which jobs can be started.
func (o *object) Connect(context.Context) (*os.File, error) {
	ours, theirs, err := seqpacket.Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	if err := o.request(holder.OpConnect, theirs.File()); err != nil {
		ours.Close()
		return nil, err
	}
	return ours.File(), nil
}

// Detach ends the holder unless jobs run, which is fault.Busy.
func (o *object) Detach(context.Context) error {
	if err := o.request(holder.OpStop); errors.Is(err, fault.Busy) {
		return err
	}
	o.Kill()
	return nil
}

// Gone is closed when nothing of the sandbox runs any more.
func (o *object) Gone() <-chan struct{} { return o.gone }

// Kill ends the holder and with it everything in its namespaces, and waits for that.
func (o *object) Kill() {
	o.control.Close()
	o.cmd.Process.Kill()
	<-o.gone
}
