package jobinit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"playground/jail/holder"
	"playground/racct"
	"playground/seqpacket"
)

// Run is the whole life of "playground-supervise init": it confines itself, waits on the holder's connection for a job's
// connection, and runs that job's command. It returns when no process of the job is left, whatever the job does: as process 1
// it cannot be killed from inside, and its memory is closed to the job. A job that left nothing gives its init back to the
// holder, for the tenant's next one.
func Run(pool *seqpacket.Conn) error {
	os.WriteFile("/proc/self/comm", []byte("playground-init"), 0) // for those who look at processes; no matter if not
	ignoreSignals()
	// Opened while it can be: later /proc is read-only and this process's files there are root's.
	score, err := os.OpenFile("/proc/self/oom_score_adj", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	buf := make([]byte, seqpacket.MaxData)
	data, _, err := pool.Recv(buf)
	if err != nil {
		return err
	}
	var cfg holder.InitConfig
	if err := json.Unmarshal(data, &cfg); err != nil {
		return fmt.Errorf("internal error: malformed init configuration: %w", err)
	}
	ready := holder.InitReady{}
	err = prepare(cfg)
	warmThreads()
	if err == nil {
		err = setLimits(cfg.Limits) // after the threads: they count, and another job may have used up the tenant's
	}
	if err != nil {
		ready.Error = err.Error()
	}
	if data, jsonErr := json.Marshal(ready); jsonErr == nil {
		err = errors.Join(err, pool.Send(data))
	}
	if errors.Is(err, unix.EPIPE) {
		return nil // the holder is gone
	}
	if err != nil {
		return err
	}
	j := jobInit{isolated: cfg.Isolated, score: score}
	if j.sound, err = conditionNow(); err != nil {
		return err
	}
	for range maxJobs {
		conn, err := nextJob(pool, buf)
		if conn == nil {
			return err
		}
		free, err := j.run(conn, buf)
		conn.Close()
		if err != nil || !free {
			return err // and the kernel ends whatever is left
		}
		if err := pool.Send([]byte(holder.Free)); err != nil {
			return nil // the holder is gone
		}
	}
	return nil
}

// maxJobs bounds how long one init is used, so that nothing small can grow large.
const maxJobs = 500

// nextJob waits for a job's connection; there is none when the pool is drained.
func nextJob(pool *seqpacket.Conn, buf []byte) (*seqpacket.Conn, error) {
	_, files, err := pool.Recv(buf)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(files) != 1 {
		return nil, errors.New("internal error: a job's connection was expected")
	}
	return seqpacket.FromFile(files[0])
}

// ignoreSignals swallows every signal a job may send to its init. signal.Ignore does not reach the synchronous ones
// (SIGSEGV and its kin), so all are received and dropped.
func ignoreSignals() {
	c := make(chan os.Signal, 64)
	signal.Notify(c)
	go func() {
		for range c {
		}
	}()
}

// warmThreads makes the runtime start its threads now: once the job has used up the process limit, which threads count
// towards, a new one could not be had and the runtime would give up.
func warmThreads() {
	const n = 4
	var started, release, ended sync.WaitGroup
	started.Add(n)
	release.Add(1)
	for range n {
		ended.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread() // unlocked threads are parked and used again
			started.Done()
			release.Wait()
			unix.Nanosleep(&unix.Timespec{Nsec: 1}, nil)
		})
	}
	started.Wait()
	release.Done()
	ended.Wait() // or the next system call could find them all busy
}

func prepare(cfg holder.InitConfig) error {
	if !cfg.Isolated {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("cannot become subreaper: %w", err)
		}
	} else {
		// Read-only: the settings of the tenant's own namespaces belong to uid 0 of its user namespace, by file mode alone,
		// and a process must not take itself off the out-of-memory killer's list (see victim) or starve itself of processor
		// time, which would hinder its end (autogroup, sched(7)). What /proc/self/fd leads to stays as writable as it is.
		if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RDONLY, ""); err != nil {
			return fmt.Errorf("cannot mount /proc: %w", err)
		}
	}
	return confine(cfg.Isolated)
}

// setLimits sets what setrlimit(2) can hold; it is inherited by the job and cannot be raised again. A lower limit of the host
// stays.
func setLimits(l racct.Limits) error {
	for _, r := range racct.Rlimits(l) {
		var host syscall.Rlimit
		if err := syscall.Getrlimit(r.Resource, &host); err != nil {
			return fmt.Errorf("cannot get %s: %w", r.Name, err)
		}
		value := min(r.Value, host.Max)
		// syscall's own Setrlimit, so that the runtime does not restore the former RLIMIT_NOFILE in children.
		if err := syscall.Setrlimit(r.Resource, &syscall.Rlimit{Cur: value, Max: value}); err != nil {
			return fmt.Errorf("cannot set %s to %d: %w", r.Name, value, err)
		}
	}
	return nil
}

// A jobInit runs one job after another.
type jobInit struct {
	isolated bool
	score    *os.File    // oom_score_adj
	sound    condition   // as it was before the first job
	ending   atomic.Bool // somebody ends the job
	empty    atomic.Bool // the job has ended by itself and nothing of it is left
}

// run starts the command, waits for its leader, ends what is left and reports. It reports whether the init may have another
// job: only if the job ended by itself and had left nothing, which its owner has then seen for itself.
func (j *jobInit) run(conn *seqpacket.Conn, buf []byte) (bool, error) {
	data, files, err := conn.Recv(buf)
	if errors.Is(err, io.EOF) {
		return false, nil // the owner went away before it said what to run
	}
	if err != nil {
		return false, err
	}
	var start Start
	if err := json.Unmarshal(data, &start); err != nil || len(files) != 3 {
		return false, fmt.Errorf("internal error: malformed start message: %v", err)
	}
	pid, err := victim(j.score, func() (int, error) { return startLeader(start, files) })
	for _, f := range files {
		f.Close() // or the reader would never see the end of the output
	}
	if err != nil {
		return false, report(conn, End{Refused: err.Error(), Empty: true})
	}
	j.ending.Store(false)
	j.empty.Store(false)
	var owner sync.WaitGroup
	owner.Go(func() { j.control(conn) })
	end, err := j.reap(conn, pid)
	if err != nil {
		return false, err
	}
	end.DiskFull = diskFull(string(start.Dir))
	end.Free = j.isolated && !start.Once && end.Empty && end.Killed == 0 && !j.ending.Load() && j.sound.holds()
	j.empty.Store(end.Free)
	if err := report(conn, end); err != nil || !end.Free {
		return false, err
	}
	owner.Wait() // until the owner has looked: it then closes the connection, or kills this process
	return !j.ending.Load(), nil
}

func report(conn *seqpacket.Conn, end End) error {
	data, err := json.Marshal(end)
	if err != nil {
		return err
	}
	if err := conn.Send(data); err != nil && !errors.Is(err, unix.EPIPE) {
		return err
	}
	return nil
}

// victim starts a process that the out-of-memory killer takes first, before any daemon. The memory that it would free may not
// be a process's at all (a file that memfd_create(2) made), so that by size alone it would begin with everybody else.
func victim(score *os.File, start func() (int, error)) (int, error) {
	// A process inherits its score. In no case is a failure a reason not to run the command.
	own := make([]byte, 16)
	if n, err := score.ReadAt(own, 0); err == nil || n > 0 {
		score.WriteAt([]byte("1000"), 0)
		defer score.WriteAt(own[:n], 0)
	}
	return start()
}

func startLeader(start Start, stdio []*os.File) (int, error) {
	argv := make([]string, len(start.Argv))
	for i, a := range start.Argv {
		argv[i] = string(a)
	}
	env := make([]string, len(start.Env))
	for i, e := range start.Env {
		env[i] = string(e)
	}
	attr := &syscall.ProcAttr{
		Dir:   string(start.Dir),
		Env:   env,
		Files: []uintptr{stdio[0].Fd(), stdio[1].Fd(), stdio[2].Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	}
	pid, err := syscall.ForkExec(argv[0], argv, attr)
	if err == nil {
		return pid, nil
	}
	if errors.Is(err, syscall.EAGAIN) { // from fork(2)
		return 0, fmt.Errorf("cannot start %q: the process limit is reached; end other commands first", argv[0])
	}
	// The error does not tell which step failed; the folder is the likely one.
	var st unix.Stat_t
	if statErr := unix.Stat(attr.Dir, &st); statErr != nil {
		return 0, fmt.Errorf("cannot enter folder %q: %v", attr.Dir, statErr)
	} else if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return 0, fmt.Errorf("cannot enter folder %q: not a directory", attr.Dir)
	} else if accessErr := unix.Access(attr.Dir, unix.X_OK); accessErr != nil {
		return 0, fmt.Errorf("cannot enter folder %q: %v", attr.Dir, accessErr)
	}
	return 0, fmt.Errorf("cannot start %q: %v", argv[0], err)
}

// control obeys signals sent by the job's owner until the connection ends. An owner that is gone can ask nothing any
// more, so its job ends with it.
func (j *jobInit) control(conn *seqpacket.Conn) {
	buf := make([]byte, 256)
	for {
		data, files, err := conn.Recv(buf)
		for _, f := range files {
			f.Close()
		}
		if err != nil && j.empty.Load() {
			return
		}
		if err != nil {
			j.ending.Store(true)
			killAll(unix.SIGKILL, j.isolated)
			return
		}
		var kill Kill
		if json.Unmarshal(data, &kill) == nil && kill.Signal > 0 {
			j.ending.Store(true)
			killAll(syscall.Signal(kill.Signal), j.isolated)
		}
	}
}

// reap collects children, the leader and every orphan that falls to the init, until none is left. Once the leader has
// ended the rest is killed, and again whenever nothing is there to collect, which leaves no window. It is not killed after
// each child: one kill(-1) looks at every process of the host, and a job may leave thousands. What dies by a signal after the
// end began, the leader included, counts as killed.
func (j *jobInit) reap(conn *seqpacket.Conn, leader int) (End, error) {
	end := End{}
	ended, killed := false, false // killed: since the last child
	for {
		var status syscall.WaitStatus
		options := syscall.WALL               // also children whose end sends no SIGCHLD
		if ended && !(j.isolated && killed) { // without a namespace a fork may outrun one kill
			options |= syscall.WNOHANG
		}
		pid, err := syscall.Wait4(-1, &status, options, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.ECHILD):
			end.Empty = true
			return end, nil
		case err != nil:
			return end, err
		case pid == 0:
			killAll(unix.SIGKILL, j.isolated)
			if killed = true; !j.isolated {
				time.Sleep(time.Millisecond)
			}
			continue
		}
		killed = false
		if (ended || j.ending.Load()) && status.Signaled() {
			end.Killed++
		}
		if pid == leader {
			end.Status, ended = uint32(status), true
			if err := report(conn, End{Leader: true, Status: end.Status}); err != nil {
				return end, err
			}
			killAll(unix.SIGKILL, j.isolated)
		}
	}
}

// diskFull reports whether the filesystem of the command's folder has no room left. One without blocks, such as /proc, never had any.
func diskFull(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Blocks > 0 && st.Bavail*uint64(st.Bsize) < 64<<10
}
