package main

// refuseRoot allows root on Linux, which is the development platform: "playground up" runs all daemons as one user.
func refuseRoot() error { return nil }
