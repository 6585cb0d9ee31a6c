package main

import (
	"context"
	"time"

	"playground/localapi/jailapi"
	"playground/record"
)

// sealTime bounds the wait for playground-jaild, which appends share.
const sealTime = 2 * time.Second

// openAudit opens the files that tell of every record and only grow. This daemon may not set their flag: playground-jaild does.
// Enforcement says what the kernel adds to that.
func openAudit(folder string, jails *jailapi.Client) (*record.Audit, error) {
	return record.OpenAudit(folder, func(file string) error {
		ctx, cancel := context.WithTimeout(context.Background(), sealTime)
		defer cancel()
		return jails.SealAudit(ctx, file)
	})
}
