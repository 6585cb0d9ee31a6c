package faculty

import (
	"context"
	"sync"
)

// places are where starts go on: a few at once, and of each tenant one, because a tenant can make its starts hang.
type places struct {
	all     chan struct{}
	tenants sync.Map // of chan struct{} with room for one, by tenant
}

func newPlaces(n int) *places { return &places{all: make(chan struct{}, n)} }

// take waits for a place until ctx ends. The caller gives it back with leave.
func (p *places) take(ctx context.Context, tenant string) (leave func(), err error) {
	own, _ := p.tenants.LoadOrStore(tenant, make(chan struct{}, 1))
	one := own.(chan struct{})
	select {
	case one <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case p.all <- struct{}{}:
		return func() { <-p.all; <-one }, nil
	case <-ctx.Done():
		<-one
		return nil, context.Cause(ctx)
	}
}
