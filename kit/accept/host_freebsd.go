package main

func newHost(prefix string) host { return host{prefix: prefix, freebsd: true} }
