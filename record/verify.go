package record

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"

	"playground/fault"
)

// A Report is what Verify found.
type Report struct {
	Records   int64 `json:"records"`   // how many are sound, from the first on
	Signed    int64 `json:"signed"`    // of them, by the engine's key
	Audited   int64 `json:"audited"`   // of them, with a line in the audit files
	Unaudited int64 `json:"unaudited"` // of them, without one: written while auditing was off; 0 when it is off now
	First     *Bad  `json:"first"`     // nil: nothing is wrong
}

// A Bad record, or the place where one is missing.
type Bad struct {
	Sequence int64  `json:"sequence"`
	ID       string `json:"id"` // "" where it is not known
	Reason   string `json:"reason"`
}

// Verify reads the whole log, as it is at one moment, and hashes everything again: ids, links, signatures, clocks, parents, the
// head, and the audit files if Options.Audit came from OpenAudit. It reports the first thing that is wrong; its error is only for a
// log that cannot be read. It needs about 300 bytes of memory a record.
//
// In a log that has a key nobody without it can change, add or remove a record unseen, or put another head. An older copy of the whole
// database is sound in itself; the audit files show it unless they were set back too, or no more than the last transaction is
// missing, which a crash may have undone. Whoever has the key and can write both can do anything.
func (l *Log) Verify(ctx context.Context) (Report, error) {
	file, audited := l.audit.(*Audit)
	var entries []auditEntry
	var auditBad *Bad
	if audited { // before the log, which then holds all that the files know to be committed
		var err error
		if entries, auditBad, err = file.entries(); err != nil {
			return Report{}, fault.Hide(fault.Unavailable, err, "cannot read the audit files of the record log")
		}
	}
	v := verifier{signer: l.signer, audited: audited, clocks: map[string]int64{}, ids: map[link]struct{}{}}
	v.end.chain = genesis()
	stored, sig, err := l.verifyRows(ctx, &v)
	if err != nil {
		return Report{}, readError(ctx, err)
	}
	report := Report{Records: v.end.sequence, Signed: v.signed, First: v.bad}
	if report.First == nil {
		report.First = l.judgeHead(stored, sig, v.end)
		nameMissing(report.First, entries)
	}
	if audited {
		var bad *Bad
		report.Audited, bad = judgeAudit(entries, v.links, v.lines)
		report.Unaudited = report.Records - report.Audited
		if bad == nil {
			bad = auditBad
		}
		if report.First == nil {
			report.First = bad
		}
	}
	return report, nil
}

// nameMissing finds the id of a record that the log lacks.
func nameMissing(bad *Bad, entries []auditEntry) {
	for i := len(entries) - 1; bad != nil && bad.ID == "" && i >= 0; i-- {
		if entries[i].sequence == bad.Sequence {
			bad.ID = hex.EncodeToString(entries[i].id[:])
		}
	}
}

// verifyRows feeds every row to v and returns the head of the same moment.
func (l *Log) verifyRows(ctx context.Context, v *verifier) (stored head, sig []byte, err error) {
	tx, err := l.slow.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return head{}, nil, err
	}
	defer tx.Rollback()
	stored, sig, err = readHead(ctx, tx)
	if errors.Is(err, sql.ErrNoRows) {
		stored.chain = genesis()
	} else if err != nil {
		return head{}, nil, err
	}
	rows, err := tx.QueryContext(ctx, "SELECT "+columns+", sig, chain FROM records ORDER BY sequence")
	if err != nil {
		return head{}, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var sig, chain []byte
		r, err := scanRecord(rows, &sig, &chain)
		if err != nil {
			return head{}, nil, err
		}
		if reason := v.row(r, sig, chain); reason != "" {
			v.bad = &Bad{Sequence: r.Sequence, ID: r.ID, Reason: reason}
			return stored, sig, nil
		}
	}
	return stored, sig, rows.Err()
}

// A verifier holds what the rows so far say.
type verifier struct {
	signer  signer
	audited bool
	end     head
	links   []link
	lines   []link           // digests of the audit lines that belong to the rows
	clocks  map[string]int64 // by thread and actor
	ids     map[link]struct{}
	signed  int64
	bad     *Bad
}

// row returns what is wrong with the next row, or "".
func (v *verifier) row(r Record, sig, chain []byte) string {
	if r.Sequence != v.end.sequence+1 {
		return fmt.Sprintf("the record before it is missing: sequence %d follows %d", r.Sequence, v.end.sequence)
	}
	body, err := Canonicalize(r.Body)
	switch {
	case err != nil:
		return "its body is no JSON: " + err.Error()
	case string(body) != string(r.Body):
		return "its body is not in canonical form"
	}
	canonical := r.canonical()
	if id := idOf(canonical); id != r.ID {
		return "its content was changed: it hashes to " + id
	}
	if reason := v.order(r); reason != "" {
		return reason
	}
	switch {
	case !v.signer.on():
	case sig == nil && r.Actor == v.signer.engine:
		return "it is by the engine and not signed"
	case sig != nil && !v.signer.verify(canonical, sig):
		return "its signature is not by the engine's key"
	case sig != nil:
		v.signed++
	}
	next := v.end.chain.next(r, sig)
	if string(next[:]) != string(chain) {
		return "its link does not follow from the records before it: a record was changed, moved or put in here"
	}
	v.end = head{r.Sequence, next}
	v.links = append(v.links, next)
	if v.audited {
		v.lines = append(v.lines, auditLineOf(r, next, 0).digest())
	}
	return ""
}

// order checks a row against those before it.
func (v *verifier) order(r Record) string {
	author := r.Thread + "\x00" + r.Actor
	if last, ok := v.clocks[author]; ok && r.Clock <= last {
		return fmt.Sprintf("its clock %d does not follow %d", r.Clock, last)
	}
	v.clocks[author] = r.Clock
	known := func(id string) bool {
		_, ok := v.ids[binaryID(id)]
		return ok
	}
	for _, parent := range r.Parents {
		if !known(parent) {
			return "its parent " + parent + " is not before it"
		}
	}
	if r.JudgedBy != nil && !known(*r.JudgedBy) {
		return "what it is judged by, " + *r.JudgedBy + ", is not before it"
	}
	v.ids[binaryID(r.ID)] = struct{}{}
	return ""
}

func binaryID(id string) (b link) {
	hex.Decode(b[:], pad(id))
	return b
}
