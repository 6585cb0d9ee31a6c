// Package archtest holds the tests that keep the shape of the source tree: which package may import which, one package
// comment each, no hidden start-up code, no global logger, and a package list that matches what "make install" installs.
// It has no code of its own.
package archtest
