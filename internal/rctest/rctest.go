// Package rctest holds the tests of the rc.d scripts: it runs them with a small rc.subr and stand-ins for what only FreeBSD
// has, checks their order at boot as rcorder(8) does, and compares what they say of themselves with what they do. It has no
// code of its own.
package rctest
