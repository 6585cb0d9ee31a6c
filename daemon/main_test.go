package daemon

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// childEnv makes the test binary play a daemon, so that signals hit a real process.
const childEnv = "PLAYGROUND_DAEMON_TEST_CHILD"

func TestMain(m *testing.M) {
	if role := os.Getenv(childEnv); role != "" {
		os.Exit(child(role))
	}
	goleak.VerifyTestMain(m)
}

// child runs a daemon of two tasks. Its standard output says what happens.
func child(role string) int {
	logger, err := Logger(os.Stderr, "debug", "child")
	if err != nil {
		fmt.Println(err)
		return 2
	}
	step := func(name string, stop func()) Task {
		return NewTask(name, func(ctx context.Context, ready func()) error {
			fmt.Println("start", name)
			ready()
			<-ctx.Done()
			stop()
			fmt.Println("stop", name)
			return nil
		})
	}
	second := func() {}
	switch role {
	case "orderly":
	case "hang":
		second = func() { fmt.Println("hanging"); time.Sleep(time.Minute) }
	case "pipe":
		// Our log reader is gone; a child must still die of a broken pipe as everywhere else.
		second = func() {
			_, err := fmt.Fprintln(os.Stderr, "nobody reads this")
			fmt.Println("write error:", err)
			out, err := exec.Command("/bin/sh", "-c", "kill -PIPE $$; echo survived").CombinedOutput()
			fmt.Printf("child: %s%v\n", out, err)
		}
	}
	if role == "early" {
		CatchBrokenPipes()
		fmt.Println("not running yet")
		_, _ = fmt.Scanln() // the test has closed the other end
		logger.Info().Msg("nobody reads this either")
		return 7
	}
	if err := Run(context.Background(), logger, step("first", func() {}), step("second", second)); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func TestFlags(t *testing.T) {
	fs := flag.NewFlagSet("x", flag.ContinueOnError)
	o := Flags(fs)
	if err := fs.Parse([]string{"-t", "-c", "/tmp/x.toml", "-version"}); err != nil {
		t.Fatal(err)
	}
	if *o != (Options{Config: "/tmp/x.toml", Test: true, Version: true}) {
		t.Errorf("options = %+v", *o)
	}
	o = Flags(flag.NewFlagSet("x", flag.ContinueOnError))
	if *o != (Options{Config: DefaultConfig}) {
		t.Errorf("defaults = %+v", *o)
	}
}
