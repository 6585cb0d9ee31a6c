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

// Run runs one job. It is the whole life of "playground-supervise init": it confines itself, waits on the holder's
// connection for a job's connection, runs that job's command, and returns when no process of the job is left. It never
// returns before that, whatever the job does: as process 1 it cannot be killed from inside, and its memory is closed to
// the job.
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
	if err != nil {
		return err
	}
	_, files, err := pool.Recv(buf)
	if errors.Is(err, io.EOF) {
		return nil // the pool was drained
	}
	if err != nil {
		return err
	}
	if len(files) != 1 {
		return errors.New("internal error: a job's connection was expected")
	}
	conn, err := seqpacket.FromFile(files[0])
	if err != nil {
		return err
	}
	pool.Close()
	return runJob(conn, buf, score, cfg.Isolated)
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

// runJob starts the command, waits for its leader, ends what is left and reports.
func runJob(conn *seqpacket.Conn, buf []byte, score *os.File, isolated bool) error {
	data, files, err := conn.Recv(buf)
	if errors.Is(err, io.EOF) {
		return nil // the caller went away before it said what to run
	}
	if err != nil {
		return err
	}
	var start Start
	if err := json.Unmarshal(data, &start); err != nil || len(files) != 3 {
		return fmt.Errorf("internal error: malformed start message: %v", err)
	}
	pid, err := victim(score, func() (int, error) { return startLeader(start, files) })
	for _, f := range files {
		f.Close() // or the reader would never see the end of the output
	}
	if err != nil {
		return report(conn, End{Refused: err.Error(), Empty: true})
	}
	var ending atomic.Bool
	go control(conn, isolated, &ending)
	end, err := reap(conn, pid, isolated, &ending)
	if err != nil {
		return err
	}
	end.DiskFull = diskFull(string(start.Dir))
	return report(conn, end)
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
func control(conn *seqpacket.Conn, isolated bool, ending *atomic.Bool) {
	buf := make([]byte, 256)
	for {
		data, files, err := conn.Recv(buf)
		for _, f := range files {
			f.Close()
		}
		if err != nil {
			ending.Store(true)
			killAll(unix.SIGKILL, isolated)
			return
		}
		var kill Kill
		if json.Unmarshal(data, &kill) == nil && kill.Signal > 0 {
			ending.Store(true)
			killAll(syscall.Signal(kill.Signal), isolated)
		}
	}
}

// reap collects children, the leader and every orphan that falls to the init, until none is left. Once the leader has
// ended the rest is killed, and again whenever nothing is there to collect, which leaves no window. It is not killed after
// each child: one kill(-1) looks at every process of the host, and a job may leave thousands. What dies by a signal after the
// end began, the leader included, counts as killed.
func reap(conn *seqpacket.Conn, leader int, isolated bool, ending *atomic.Bool) (End, error) {
	end := End{}
	ended, killed := false, false // killed: since the last child
	for {
		var status syscall.WaitStatus
		options := 0
		if ended && !(isolated && killed) { // without a namespace a fork may outrun one kill
			options = syscall.WNOHANG
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
			killAll(unix.SIGKILL, isolated)
			if killed = true; !isolated {
				time.Sleep(time.Millisecond)
			}
			continue
		}
		killed = false
		if (ended || ending.Load()) && status.Signaled() {
			end.Killed++
		}
		if pid == leader {
			end.Status, ended = uint32(status), true
			if err := report(conn, End{Leader: true, Status: end.Status}); err != nil {
				return end, err
			}
			killAll(unix.SIGKILL, isolated)
		}
	}
}

// diskFull reports whether the filesystem of the command's folder has no room left.
func diskFull(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Bavail*uint64(st.Bsize) < 64<<10
}
