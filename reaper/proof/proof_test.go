package proof_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"playground/reaper/bsdproc"
	"playground/reaper/proof"
)

const deadline = 4 * time.Second

// end runs the end of the fake kernel's job, whoever has to bring it about, and checks what must hold of any report.
func end(t rapid.TB, k *fakeKernel) proof.Report {
	t.Helper()
	e := proof.New(k, nil)
	if k.self == daemonPid {
		var err error
		if e, err = proof.NewBranch(k, superPid); err != nil {
			t.Fatal(err)
		}
	}
	start := k.now
	report := e.Run(start.Add(deadline))
	check(t, k, report, start)
	return report
}

func check(t rapid.TB, k *fakeKernel, report proof.Report, start time.Time) {
	t.Helper()
	if report.Proven && k.left() > 0 {
		t.Fatalf("proven, but %d processes are left: %+v", k.left(), report)
	}
	if report.Proven && report.Survivors != 0 || !report.Proven && report.Survivors == 0 {
		t.Fatalf("survivors do not fit: %+v", report)
	}
	if late := k.now.Sub(start.Add(deadline)); late > time.Second {
		t.Fatalf("the end came %v after the deadline", late)
	}
	if !report.Proven && k.now.Before(start.Add(deadline)) {
		t.Fatalf("it gave up before the deadline: %+v", report)
	}
	if len(k.touched) > 0 {
		t.Fatalf("processes of others: %v", k.touched)
	}
}

// chain makes zombie reapers inside each other, with a living process below the last. No list shows it.
func chain(k *fakeKernel, depth int) {
	p := k.leader()
	var all []*proc
	for range depth {
		k.acquire(p)
		all = append(all, p)
		p = k.fork(p, forkPlain)
	}
	for _, p := range all {
		k.exit(p)
	}
}

var adversaries = map[string]func(k *fakeKernel){
	"nothing left": func(k *fakeKernel) { k.exit(k.leader()) },
	"plain tree": func(k *fakeKernel) {
		p := k.leader()
		for range 20 {
			k.fork(p, forkPlain)
		}
	},
	"daemons": func(k *fakeKernel) {
		p := k.leader()
		for range 5 {
			c := k.fork(p, forkPlain)
			k.fork(c, forkPlain)
			k.exit(c)
		}
		k.exit(p)
	},
	"100 living nested reapers": func(k *fakeKernel) {
		p := k.leader()
		for range 100 {
			k.acquire(p)
			p = k.fork(p, forkPlain)
		}
	},
	"100 zombie nested reapers": func(k *fakeKernel) { chain(k, 100) },
	"stopped": func(k *fakeKernel) {
		p := k.leader()
		k.fork(p, forkPlain).stopped = true
		p.stopped = true
	},
	"traced by a sibling": func(k *fakeKernel) {
		p := k.leader()
		a, b := k.fork(p, forkPlain), k.fork(p, forkPlain)
		k.trace(a, b)
		k.trace(b, p)
	},
	"traced from the jail, not from the tree": func(k *fakeKernel) {
		f := k.add(&proc{pid: 90, parent: initPid, reaper: initPid, jailed: true})
		k.trace(f, k.fork(k.leader(), forkPlain))
	},
	"rfork with another signal": func(k *fakeKernel) {
		p := k.leader()
		for range 3 {
			k.exit(k.fork(p, forkSignal))
		}
		k.fork(p, forkSignal)
	},
	"pdfork with the descriptor elsewhere": func(k *fakeKernel) {
		p := k.leader()
		k.exit(k.fork(p, forkParked))
		k.fork(p, forkParked)
		k.exit(p)
	},
	// No such thing should be; the list and the jail are proofs of their own all the same.
	"escaped from the jail": func(k *fakeKernel) {
		p := k.leader()
		k.fork(p, forkPlain).jailed = false
		k.exit(p)
	},
	// The supervisor died between fork(2) and jail_attach(2).
	"never attached": func(k *fakeKernel) { k.leader().jailed = false },
	"throttled": func(k *fakeKernel) {
		k.throttled = true
		k.fork(k.leader(), forkPlain).asleep = true
	},
	"forks during the kill": func(k *fakeKernel) {
		p := k.leader()
		for range 50 {
			k.fork(p, forkPlain)
		}
		k.calm = false
	},
	"lists are cut short": func(k *fakeKernel) {
		k.truncate = true
		chain(k, 10)
	},
	"sockets keep the jail": func(k *fakeKernel) {
		k.leader()
		k.references = k.now.Add(time.Hour)
	},
	"the limits are wiped": func(k *fakeKernel) {
		k.wipes, k.calm = true, false
		k.fork(k.leader(), forkPlain)
	},
	"no freeze": func(k *fakeKernel) {
		k.refuse["freeze"], k.refuse["wake"] = -1, -1
		k.fork(k.leader(), forkPlain)
		k.calm = false
	},
	"the kernel refuses for a while": func(k *fakeKernel) {
		for _, what := range []string{"status", "pids", "wait", "remove", "state", "freeze", "wake", "kill"} {
			k.refuse[what] = 5
		}
		k.fork(k.leader(), forkPlain)
	},
}

func TestAdversaries(t *testing.T) {
	for name, build := range adversaries {
		for _, lost := range []bool{false, true} {
			t.Run(map[bool]string{false: "", true: "supervisor lost/"}[lost]+name, func(t *testing.T) {
				for seed := range uint64(50) {
					k := newKernel(seed)
					k.calm = true
					build(k)
					if lost {
						k.loseSupervisor()
					}
					if report := end(t, k); !report.Proven {
						t.Fatalf("seed %d: not proven: %+v", seed, report)
					}
				}
			})
		}
	}
}

// What nothing can kill is reported and never called gone.
func TestUnproven(t *testing.T) {
	for name, build := range map[string]func(k *fakeKernel){
		"uninterruptible sleep": func(k *fakeKernel) { k.leader().stuck = true },
		"hidden, uninterruptible": func(k *fakeKernel) {
			chain(k, 3)
			k.procs[k.order[len(k.order)-1]].stuck = true
		},
		"traced by the host": func(k *fakeKernel) {
			f := k.add(&proc{pid: 90, parent: initPid, reaper: initPid})
			k.trace(f, k.leader())
		},
		"a stranger in the jail that cannot die": func(k *fakeKernel) {
			k.add(&proc{pid: 90, parent: initPid, reaper: initPid, jailed: true, stuck: true})
			k.exit(k.leader())
		},
		"escaped, uninterruptible": func(k *fakeKernel) {
			p := k.leader()
			c := k.fork(p, forkPlain)
			c.jailed, c.stuck = false, true
			k.exit(p)
		},
		"never attached, uninterruptible, sockets keep the jail": func(k *fakeKernel) {
			p := k.leader()
			p.jailed, p.stuck = false, true
			k.references = k.now.Add(time.Hour)
		},
		"the same, and lists are cut short": func(k *fakeKernel) {
			p := k.leader()
			p.jailed, p.stuck = false, true
			k.references, k.truncate = k.now.Add(time.Hour), true
		},
		"the jail cannot be removed":  func(k *fakeKernel) { k.leader(); k.refuse["remove"] = -1 },
		"the jail cannot be seen":     func(k *fakeKernel) { k.leader(); k.refuse["state"] = -1 },
		"no status":                   func(k *fakeKernel) { k.leader(); k.refuse["status"] = -1 },
		"no longer a reaper":          func(k *fakeKernel) { k.leader().jailed = false; k.procs[superPid].acquired = false },
		"no waiting":                  func(k *fakeKernel) { k.leader(); k.refuse["wait"] = -1 },
		"process table cannot be had": func(k *fakeKernel) { k.leader(); k.references = k.now.Add(time.Hour); k.refuse["scan"] = -1 },
	} {
		for _, lost := range []bool{false, true} {
			t.Run(map[bool]string{false: "", true: "supervisor lost/"}[lost]+name, func(t *testing.T) {
				k := newKernel(7)
				k.calm = true
				build(k)
				if lost {
					k.loseSupervisor()
					k.procs[daemonPid].acquired = name != "no longer a reaper"
				}
				if report := end(t, k); report.Proven {
					t.Errorf("proven: %+v", report)
				}
			})
		}
	}
}

// An ending goes on after its first deadline, and is proved once what was stuck comes free.
func TestProvenLater(t *testing.T) {
	k := newKernel(3)
	k.calm = true
	p := k.leader()
	p.stuck = true
	e := proof.New(k, nil)
	if report := e.Run(k.now.Add(time.Second)); report.Proven || report.Survivors != 1 || len(report.Pids) != 1 || report.Pids[0] != p.pid {
		t.Fatalf("got %+v", report)
	}
	p.stuck = false
	if report := e.Run(k.now.Add(time.Second)); !report.Proven || report.Killed != 1 {
		t.Fatalf("got %+v", report)
	}
}

// What an earlier daemon left is nobody's here: its jail alone is looked at, and no process of the caller is touched.
func TestLeftJail(t *testing.T) {
	for name, c := range map[string]struct {
		build  func(k *fakeKernel)
		proven bool
	}{
		"processes": {func(k *fakeKernel) {
			k.fork(k.add(&proc{pid: 90, parent: initPid, reaper: initPid, jailed: true}), forkPlain)
		}, true},
		"empty":      {func(*fakeKernel) {}, true},
		"gone":       {func(k *fakeKernel) { k.removed = true; k.references = k.now.Add(time.Hour) }, true},
		"references": {func(k *fakeKernel) { k.references = k.now.Add(time.Hour) }, true},
		"stuck": {func(k *fakeKernel) {
			k.add(&proc{pid: 90, parent: initPid, reaper: initPid, jailed: true, stuck: true})
		}, false},
		"unremovable": {func(k *fakeKernel) { k.refuse["remove"] = -1 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKernel(5)
			k.self = daemonPid
			c.build(k)
			start := k.now
			report := proof.NewJail(k).Run(start.Add(deadline))
			check(t, k, report, start)
			if report.Proven != c.proven || k.kills > 0 {
				t.Errorf("%d kills, %+v", k.kills, report)
			}
		})
	}
}

// A lost supervisor is needed by name: the branch of process 0 would be everybody's.
func TestBranchOfNobody(t *testing.T) {
	for _, pid := range []int{-1, 0, 1} {
		if _, err := proof.NewBranch(newKernel(1), pid); err == nil {
			t.Errorf("branch %d was accepted", pid)
		}
	}
}

// An ended command without leftovers costs no freeze, no kill and no pause.
func TestNothingLeftIsCheap(t *testing.T) {
	k := newKernel(1)
	k.calm = true
	p := k.leader()
	k.exit(p)
	k.collected(p)
	if report := end(t, k); !report.Proven || k.calls > 6 || k.kills > 0 {
		t.Errorf("%d calls, %d kills: %+v", k.calls, k.kills, report)
	}
}

// The model must be able to show what is wrong with lesser proofs, or it shows nothing about the right one.
func TestModelRefutesLesserProofs(t *testing.T) {
	t.Run("no child to wait for", func(t *testing.T) {
		k := newKernel(1)
		k.calm = true
		p := k.leader()
		k.fork(p, forkSignal)
		k.exit(p)
		k.waitFor(superPid, -1, false)
		if _, _, err := k.waitFor(superPid, -1, false); err != proof.ErrNoChild || k.left() == 0 {
			t.Errorf("%v with %d left", err, k.left())
		}
	})
	t.Run("only zombies are listed", func(t *testing.T) {
		k := newKernel(1)
		k.calm = true
		chain(k, 2)
		k.killList(superPid, 0)
		list, err := k.Pids(100)
		if err != nil || len(list) != 1 || !k.procs[int(list[0].Pid)].zombie || k.left() != 3 {
			t.Errorf("%v %v, %d left", list, err, k.left())
		}
		if p := k.procs[k.order[len(k.order)-1]]; p.killed {
			t.Error("the kill reached what a zombie hides")
		}
	})
	t.Run("an empty list", func(t *testing.T) {
		k := newKernel(1)
		k.calm, k.truncate = true, true
		k.leader()
		for range 100 {
			if list, _ := k.Pids(100); len(list) == 0 {
				return
			}
		}
		t.Error("no list was empty")
	})
}

// builder is the state machine that grows a tree of processes in every way there is, before its end.
type builder struct {
	k     *fakeKernel
	lost  bool
	fatal bool // something was built that nothing can end
}

func (b *builder) pick(t *rapid.T) *proc {
	var all []*proc
	for _, pid := range b.k.order {
		if p := b.k.procs[pid]; p.jailed {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		t.Skip("no process")
	}
	return rapid.SampledFrom(all).Draw(t, "process")
}

func (b *builder) actions() map[string]func(*rapid.T) {
	k := b.k
	return map[string]func(*rapid.T){
		"": func(t *rapid.T) {
			if len(k.touched) > 0 {
				t.Fatalf("touched: %v", k.touched)
			}
		},
		"fork": func(t *rapid.T) {
			k.fork(b.pick(t), rapid.SampledFrom([]forkKind{forkPlain, forkNoWait, forkSignal, forkParked}).Draw(t, "kind"))
		},
		"acquire": func(t *rapid.T) { k.acquire(b.pick(t)) },
		"exit":    func(t *rapid.T) { k.exit(b.pick(t)) },
		"stop":    func(t *rapid.T) { p := b.pick(t); p.stopped = !p.zombie },
		"trace":   func(t *rapid.T) { k.trace(b.pick(t), b.pick(t)) },
		"sleep":   func(t *rapid.T) { k.throttled = true; p := b.pick(t); p.asleep = !p.zombie },
		"collect": func(t *rapid.T) {
			if p := b.pick(t); !p.zombie {
				k.waitFor(p.pid, -1, rapid.Bool().Draw(t, "other signal"))
			}
		},
		"attach a stranger": func(t *rapid.T) {
			k.next++
			k.add(&proc{pid: k.next, parent: initPid, reaper: initPid, jailed: true})
		},
		"run":        func(t *rapid.T) { k.tick(time.Duration(rapid.IntRange(0, 10).Draw(t, "ms")) * time.Millisecond) },
		"references": func(t *rapid.T) { k.references = k.now.Add(time.Minute) },
		"cut lists":  func(t *rapid.T) { k.truncate = true },
		"wipe rules": func(t *rapid.T) { k.wipes = true },
		"refuse": func(t *rapid.T) {
			what := rapid.SampledFrom([]string{"status", "pids", "wait", "remove", "state", "freeze", "wake", "kill", "scan", "unlimit"}).Draw(t, "call")
			n := rapid.SampledFrom([]int{1, 3, 10, -1}).Draw(t, "times")
			k.refuse[what] = n
			b.fatal = b.fatal || n < 0
		},
		"stick": func(t *rapid.T) {
			if p := b.pick(t); !p.zombie && rapid.IntRange(0, 4).Draw(t, "chance") == 0 {
				p.stuck, b.fatal = true, true
			}
		},
		"escape": func(t *rapid.T) {
			if rapid.IntRange(0, 4).Draw(t, "chance") == 0 {
				b.pick(t).jailed, b.fatal = false, true // free to fork
			}
		},
		"lose supervisor": func(t *rapid.T) {
			if b.lost || rapid.IntRange(0, 3).Draw(t, "chance") > 0 {
				t.Skip("not now")
			}
			b.lost = true
			k.loseSupervisor()
		},
	}
}

// However the tree was grown and whatever it does during its end: the end is proved, or its deadline passes, and a proof
// is never wrong. Where nothing was built that cannot be ended, it is proved.
func TestEndOfAnyTree(t *testing.T) {
	proven, unproven := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		b := &builder{k: newKernel(rapid.Uint64().Draw(t, "seed"))}
		b.k.calm = rapid.Bool().Draw(t, "calm")
		b.k.leader()
		t.Repeat(b.actions())
		report := end(t, b.k)
		if !report.Proven && !b.fatal {
			t.Fatalf("not proven: %+v", report)
		}
		if report.Proven {
			proven++
		} else {
			unproven++
		}
	})
	t.Logf("%d proven, %d unproven", proven, unproven)
	if proven == 0 || unproven == 0 {
		t.Errorf("the machine reached only one end: %d proven, %d unproven", proven, unproven)
	}
}

// The states are words for people, and none reads as a proof by accident.
func TestJailStateWords(t *testing.T) {
	for state, want := range map[bsdproc.JailState]string{0: "unknown", bsdproc.JailAlive: "alive", bsdproc.JailDying: "dying", bsdproc.JailGone: "gone", 9: "unknown"} {
		if got := state.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
