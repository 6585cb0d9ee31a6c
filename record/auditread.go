package record

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// An auditEntry is an auditLine as Verify needs it.
type auditEntry struct {
	sequence, after int64
	id, chain       link
	line            link // its digest
}

// maxAuditLine bounds a line; names are bounded, so no line of ours comes near.
const maxAuditLine = 16 << 10

// entries reads all files. Half a line at the end of a file is what a crash left, and nothing that was acknowledged; any other
// line that cannot be read is an error in bad.
func (a *Audit) entries() (entries []auditEntry, bad *Bad, err error) {
	names, err := a.files()
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		if entries, bad, err = readAuditFile(name, entries); err != nil || bad != nil {
			return entries, bad, err
		}
	}
	return entries, nil, nil
}

func readAuditFile(name string, entries []auditEntry) ([]auditEntry, *Bad, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot open audit file: %w", err)
	}
	defer f.Close()
	lines := bufio.NewReaderSize(f, maxAuditLine)
	for number := 1; ; number++ {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return entries, nil, nil
		}
		e, ok := parseAuditLine(line)
		if errors.Is(err, bufio.ErrBufferFull) || err == nil && !ok {
			next := int64(1)
			if len(entries) > 0 {
				next = entries[len(entries)-1].sequence + 1
			}
			return entries, &Bad{Sequence: next, Reason: fmt.Sprintf("line %d of the audit file %s cannot be read", number, f.Name())}, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("cannot read audit file: %w", err)
		}
		entries = append(entries, e)
	}
}

func parseAuditLine(line []byte) (e auditEntry, ok bool) {
	var l auditLine
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if decoder.Decode(&l) != nil {
		return e, false
	}
	e = auditEntry{sequence: l.Sequence, after: l.After, line: l.digest()}
	n, errID := hex.Decode(e.id[:], pad(l.ID))
	m, errChain := hex.Decode(e.chain[:], pad(l.Chain))
	return e, errID == nil && errChain == nil && n == len(e.id) && m == len(e.chain) && l.Sequence > l.After && l.After >= 0
}

// pad keeps a text of another length from being decoded.
func pad(text string) []byte {
	if len(text) != 2*len(link{}) {
		return []byte("x")
	}
	return []byte(text)
}

// An auditBatch is the run of entries that one transaction wrote.
type auditBatch []auditEntry

// batches cuts entries up. Every batch begins right after the sequence it names.
func batches(entries []auditEntry) (all []auditBatch) {
	start := 0
	for i := 1; i <= len(entries); i++ {
		if i < len(entries) && entries[i].after == entries[i-1].after && entries[i].sequence == entries[i-1].sequence+1 {
			continue
		}
		all = append(all, entries[start:i])
		start = i
	}
	if len(entries) == 0 {
		return nil
	}
	return all
}

// judgeAudit compares the audit entries with what the log's rows say: links[i] and lines[i] are of sequence i+1. It returns how many
// rows have a line.
func judgeAudit(entries []auditEntry, links, lines []link) (audited int64, bad *Bad) {
	all := batches(entries)
	for i, batch := range all {
		first, last := batch[0], batch[len(batch)-1]
		if first.sequence != first.after+1 {
			return audited, &Bad{Sequence: first.sequence, ID: hex.EncodeToString(first.id[:]), Reason: "the audit file lacks lines before this record"}
		}
		for _, e := range batch {
			if matches(e, links) && lines[e.sequence-1] != e.line {
				return audited, &Bad{Sequence: e.sequence, ID: hex.EncodeToString(e.id[:]), Reason: "the audit file says something else of this record"}
			}
		}
		if matches(last, links) { // the link stands for all before it
			audited += int64(len(batch))
			continue
		}
		missing := batch[0]
		for _, e := range batch {
			if missing = e; !matches(e, links) {
				break
			}
		}
		lost := &Bad{Sequence: missing.sequence, ID: hex.EncodeToString(missing.id[:]), Reason: "the audit file names this record and the log lacks it or has another in its place"}
		switch {
		case missing.sequence != first.sequence:
			return audited, lost // a transaction is all or nothing
		case i+1 < len(all) && all[i+1][0].after != first.after:
			return audited, lost // it was committed, or the log was set back since
		}
	}
	return audited, nil
}

func matches(e auditEntry, links []link) bool {
	return e.sequence <= int64(len(links)) && links[e.sequence-1] == e.chain
}

// committed returns what the last line says had been committed before it was written, 0 where there is none.
func (a *Audit) committed() (after int64, bad *Bad, err error) {
	names, err := a.files()
	if err != nil {
		return 0, nil, err
	}
	var entries []auditEntry
	for i := len(names) - 1; i >= 0 && len(entries) == 0; i-- {
		if entries, bad, err = readAuditFile(names[i], nil); err != nil || bad != nil {
			return 0, bad, err
		}
	}
	if len(entries) == 0 {
		return 0, nil, nil
	}
	return entries[len(entries)-1].after, nil, nil
}
