// Package e2e holds the tests of the whole suite: the real programs, started by "playground up" in a folder of the test,
// driven over their sockets as an operator and an agent would. They run where PLAYGROUND_BIN names the folder of the
// programs, as "make test" does, and say so where it does not. It has no code of its own.
package e2e
