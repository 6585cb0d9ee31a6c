package main

import "playground/record"

// openAudit opens the files that tell of every record and only grow. OpenAudit's Enforcement says what the kernel adds to that.
func openAudit(folder string) (*record.Audit, error) { return record.OpenAudit(folder) }
