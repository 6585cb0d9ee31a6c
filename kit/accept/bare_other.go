//go:build !freebsd

package main

import (
	"context"
	"errors"
	"time"
)

func bareKill(context.Context, options, int) (time.Duration, error) { return 0, errors.ErrUnsupported }

func freeMiB() int { return 0 }
