package jail

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// alias gives the loopback interface an address, unless some interface has it, or takes it from there, unless it is gone.
func (freebsd) alias(ctx context.Context, addr netip.Addr, add bool) error {
	if !add {
		return removeAlias(ctx, addr)
	}
	there, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("cannot list the host's addresses: %w", err)
	}
	if has(there, addr) {
		return nil
	}
	_, err = runProgram(ctx, "/sbin/ifconfig", aliasArgs(addr, true)...)
	return err
}

func removeAlias(ctx context.Context, addr netip.Addr) error {
	lo, err := net.InterfaceByName(loopback)
	if err != nil {
		return fmt.Errorf("cannot list the host's addresses: %w", err)
	}
	there, err := lo.Addrs()
	if err != nil {
		return fmt.Errorf("cannot list the host's addresses: %w", err)
	}
	if !has(there, addr) {
		return nil
	}
	_, err = runProgram(ctx, "/sbin/ifconfig", aliasArgs(addr, false)...)
	return err
}

func has(list []net.Addr, addr netip.Addr) bool {
	return slices.ContainsFunc(list, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr().WithZone("") == addr
	})
}
