//go:build !freebsd

package main

func newHost(prefix, config string) host { return host{prefix: prefix, config: config} }
