//go:build !freebsd

package main

func newHost(prefix string) host { return host{prefix: prefix} }
