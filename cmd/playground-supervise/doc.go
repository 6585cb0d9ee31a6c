// Command playground-supervise is the small program next to a tenant's processes. The root daemons start it; nobody types
// it. On Linux it is a sandbox's holder (package holder) or a job's init (package jobinit), on FreeBSD a job's supervisor (package
// supervisor). It is always built without cgo and without the race detector: it drops its privileges on all threads itself.
package main
