package main

import (
	"playground/localapi/jailapi"
	"playground/record"
)

// openAudit opens nothing on the development platform: a file that the kernel lets nobody remove would outlive the state folder
// of "playground up".
func openAudit(string, *jailapi.Client) (*record.Audit, error) { return nil, nil }
