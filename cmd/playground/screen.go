package main

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"playground/cli"
)

// screen says what f is, to commands that draw.
func screen(f *os.File) cli.Screen {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 || os.Getenv("TERM") == "dumb" {
		return cli.Screen{}
	}
	if _, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err != nil { // /dev/null is a device too
		return cli.Screen{}
	}
	return cli.Screen{Terminal: true, Colour: isTerminal(f), Unicode: utf8Locale(),
		Width: func() int {
			size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
			if err != nil {
				return 0
			}
			return int(size.Col)
		}}
}

// utf8Locale reports whether the terminal shows UTF-8, as locale(1) decides it.
func utf8Locale() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := strings.ToUpper(os.Getenv(name)); value != "" {
			return strings.Contains(value, "UTF-8") || strings.Contains(value, "UTF8")
		}
	}
	return false
}
