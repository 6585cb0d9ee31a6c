//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
//go:debug decoratemappings=0

// Command worker stands in for playground-worker in tests. How it behaves is written behind its own end, after "MODE:".
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"playground/confine"
	"playground/confine/escape"
)

func mode() string {
	data, err := os.ReadFile(self())
	if err != nil {
		return ""
	}
	_, mode, _ := bytes.Cut(data[len(data)-32:], []byte("MO"+"DE:"))
	return string(mode)
}

// self is this program. Its own path may lie in a folder that is closed to a worker's user; the kernel's link leads to it anyway.
func self() string {
	if _, err := os.Stat("/proc/self/exe"); err == nil {
		return "/proc/self/exe"
	}
	exe, _ := os.Executable()
	return exe
}

// child is the name of the process that stays beside a worker and does nothing.
const child = "child"

func main() {
	if os.Args[0] == child {
		time.Sleep(time.Hour)
	}
	mode := mode()
	in := bufio.NewReader(os.Stdin)
	doors, err := confine.Doors()
	if err != nil {
		fail(err)
	}
	switch mode {
	case "silent": // never reports
		time.Sleep(time.Hour)
	case "dies":
		os.Exit(3)
	case "lies": // is not confined at all and says that it is
		in.ReadString('\n')
		os.Stdout.WriteString(`{"attempts":[{"layer":"user","attempt":"all","expect":"EPERM","errno":"EPERM","pass":true}]}` + "\n")
		time.Sleep(time.Hour)
	case "flood":
		for {
			if _, err := os.Stdout.Write(bytes.Repeat([]byte("x"), 4096)); err != nil {
				time.Sleep(time.Hour)
			}
		}
	case "chatty": // says more than its word
		os.Stdout.WriteString("{}\n{}\n")
		time.Sleep(time.Hour)
	case "forked": // has a child before it is confined
		pid, err := syscall.ForkExec(self(), []string{child}, &syscall.ProcAttr{Files: []uintptr{0, 1, 2, 3}})
		if err != nil || pid == 0 {
			fail(err)
		}
	case "leak": // keeps a file of the host open
		if _, err := os.Open("/etc/passwd"); err != nil {
			fail(err)
		}
	}
	attempts, err := confine.Enter(in, os.Stdout)
	if err != nil {
		fail(err)
	}
	for {
		line, err := in.ReadString('\n')
		if err == io.EOF {
			return
		}
		if err != nil {
			fail(err)
		}
		if strings.HasPrefix(line, "{") {
			escapeNow(line, attempts, doors)
			continue
		}
		switch word := strings.TrimSpace(line); word {
		case "work":
			work()
			fmt.Println("worked")
		case "exit":
			os.Exit(7)
		case "panic":
			panic("told to")
		case "spin":
			for {
			}
		case "hog":
			var all [][]byte
			for {
				b := make([]byte, 16<<20)
				for i := 0; i < len(b); i += 4096 {
					b[i] = 1
				}
				all = append(all, b)
			}
		case "threads":
			for range 1000 {
				go block(time.Minute) // a thread each
			}
			time.Sleep(time.Minute)
		case "doors":
			io.Copy(doors, doors)
		default:
			fmt.Println(word)
		}
	}
}

// work is what a Go program does: goroutines, timers, garbage, and threads that it did not have before.
func work() {
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() { block(50 * time.Millisecond) })
	}
	for range 64 {
		all.Go(func() {
			for i := range 50 {
				buf := make([]byte, 1<<16)
				buf[i] = 1
				time.Sleep(time.Duration(i) * 20 * time.Microsecond)
				runtime.Gosched()
			}
			runtime.GC()
		})
	}
	all.Wait()
	debug.FreeOSMemory()
}

// escapeNow runs the escape suite and prints its rows.
func escapeNow(line string, attempts []confine.Attempt, doors net.Conn) {
	var in struct {
		Plan           json.RawMessage
		Thread, Bearer string
	}
	if err := json.Unmarshal([]byte(line), &in); err != nil {
		fail(err)
	}
	plan, err := escape.Parse(in.Plan)
	if err != nil {
		fail(err)
	}
	plan.Thread, plan.Bearer, plan.Start = in.Thread, in.Bearer, attempts
	if in.Bearer != "" {
		plan.Doors = doors
	}
	rows := json.NewEncoder(os.Stdout)
	if _, _, err := escape.Run(plan, func(r escape.Row) error { return rows.Encode(r) }); err != nil {
		fail(err)
	}
	escape.UseUp(plan.UseUp)
	fmt.Println("done")
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "worker:", err)
	os.Exit(1)
}
