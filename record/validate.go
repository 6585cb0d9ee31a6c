package record

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"

	"playground/fault"
)

// Causes that callers tell apart, by errors.Is, within the errors of kind fault.Invalid.
var (
	ErrNamespace = errors.New("the namespace is not valid")
	ErrKind      = errors.New("the kind is not valid")
	ErrDamaged   = errors.New("the log is damaged") // kind fault.Internal: the log takes no appends until its tail is explained
)

var (
	idForm     = regexp.MustCompile(`^[0-9a-f]{64}$`)
	threadForm = regexp.MustCompile(`^th_([0-9a-f]{64}|engine_config|(actor|namespace|instance)_registry|fleet_control|consent|invites|queries|sync_control|audit_[a-z0-9_]{1,64})$`)
	// did-method ":" method-specific-id of the DID grammar (W3C DID Core 1.0 section 3.1).
	didForm       = regexp.MustCompile(`^did:[a-z0-9]+:(([A-Za-z0-9._-]|%[0-9A-Fa-f]{2})*:)*([A-Za-z0-9._-]|%[0-9A-Fa-f]{2})+$`)
	kindForm      = regexp.MustCompile(`^[a-z][a-z0-9_-]*(\.[a-z0-9][a-z0-9_-]*){2,3}$`)
	namespaceForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/-]*$`)
)

// Bounds of names, in bytes.
const (
	maxActor     = 256
	maxKind      = 128
	maxNamespace = 128
	maxInput     = 4 * MaxBody // of a body as it was written, with its white space and escapes
)

// ValidActor reports whether did is a DID, with fault.Invalid if not.
func ValidActor(did string) error {
	if len(did) > maxActor || !didForm.MatchString(did) {
		return fault.New(fault.Invalid, "actor %.64q is not a DID", did).WithHint("write it like did:sync:user:NAME, in at most %d bytes", maxActor)
	}
	return nil
}

// ValidThread reports whether id can be a thread, with fault.Invalid if not.
func ValidThread(id string) error {
	if !threadForm.MatchString(id) {
		return fault.New(fault.Invalid, "thread %.80q is not a thread id", id).WithHint(`a thread is "th_" and 64 lowercase hexadecimal digits, or a reserved name such as %s`, ConfigThread)
	}
	return nil
}

// ValidID reports whether id can be a record's id, with fault.Invalid if not.
func ValidID(id string) error {
	if !idForm.MatchString(id) {
		return fault.New(fault.Invalid, "record id %.80q is not 64 lowercase hexadecimal digits", id)
	}
	return nil
}

// prepare checks all of r that can be judged without the log, and brings its body into canonical form. A Clock of -1 is to be
// chosen later.
func (r *Record) prepare() error {
	if err := ValidThread(r.Thread); err != nil {
		return err
	}
	if err := ValidActor(r.Actor); err != nil {
		return err
	}
	switch r.Act {
	case ActIntend, ActDo, ActKnow, ActLearn, ActGet, ActPut, ActCall, ActMap:
	default:
		return fault.New(fault.Invalid, "act %.32q is not known", string(r.Act)).WithHint("it is one of INTEND, DO, KNOW, LEARN, GET, PUT, CALL, MAP")
	}
	switch r.DataType {
	case Scalar, Formula, Distribution, Reference, Morphism, Void:
	default:
		return fault.New(fault.Invalid, "data_type %.32q is not known", r.DataType).WithHint("it is one of SCALAR, FORMULA, DISTRIBUTION, REFERENCE, MORPHISM, VOID")
	}
	if r.Clock < -1 || r.Clock > MaxClock {
		return fault.New(fault.Invalid, "clock %d is out of range", r.Clock).WithHint("it is an integer from 0 to 2^53-1")
	}
	if err := r.prepareLinks(); err != nil {
		return err
	}
	return r.prepareBody()
}

func (r *Record) prepareLinks() error {
	if r.Parents == nil {
		r.Parents = []string{}
	}
	if len(r.Parents) > MaxParents {
		return fault.New(fault.Invalid, "%d parents are too many", len(r.Parents)).WithHint("name at most %d", MaxParents)
	}
	for i, parent := range r.Parents {
		if err := ValidID(parent); err != nil {
			return fault.Wrap(fault.Invalid, err, "parents")
		}
		if i > 0 && parent <= r.Parents[i-1] {
			return fault.New(fault.Invalid, "parents are not in ascending order, or one is given twice").WithHint("sort them as text")
		}
	}
	if r.JudgedBy != nil {
		if err := ValidID(*r.JudgedBy); err != nil {
			return fault.Wrap(fault.Invalid, err, "judged_by")
		}
	}
	return nil
}

func (r *Record) prepareBody() error {
	tooLarge := fault.New(fault.TooLarge, "body is larger than %d bytes", MaxBody).WithHint("put the content into a file and record where it is")
	if len(r.Body) > maxInput {
		return tooLarge
	}
	body, err := Canonicalize(r.Body)
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "cannot read body")
	}
	if body[0] != '{' {
		return fault.New(fault.Invalid, "body is not a JSON object")
	}
	if len(body) > MaxBody {
		return tooLarge
	}
	r.Body = body
	return headerOf(body).check()
}

// check holds a body to the few rules that concern bodies: the names that the log and its users look at mean what they say.
func (h header) check() error {
	for name := range h.members {
		for _, known := range []string{"kind", "namespace", "topic"} {
			if name != known && strings.EqualFold(name, known) {
				return fault.New(fault.Invalid, "body member %.64q differs from %q only in case", name, known).WithHint("write %q, or choose another name", known)
			}
		}
	}
	if raw, ok := h.members["kind"]; ok {
		if err := validKind(raw, h.Kind); err != nil {
			return err
		}
	}
	if raw, ok := h.members["namespace"]; ok {
		if namespace := stringOf(raw); len(namespace) > maxNamespace || !namespaceForm.MatchString(namespace) {
			return invalid(ErrNamespace, "body.namespace %.80s is not a namespace", raw).
				WithHint("it is a text of letters, digits and . _ : / - in at most %d bytes; leave it out for the default one", maxNamespace)
		}
	}
	if strings.HasPrefix(h.Kind+".", "core.work.observation.") {
		for _, name := range []string{"rule", "text"} {
			if strings.TrimSpace(stringOf(h.members[name])) == "" {
				return fault.New(fault.Invalid, "an observation needs body.%s", name).WithHint("rule names what fired, text is what the actor was shown")
			}
		}
	}
	return nil
}

func validKind(raw json.RawMessage, kind string) error {
	if len(kind) > maxKind || !kindForm.MatchString(kind) {
		return invalid(ErrKind, "body.kind %.80s is not a kind", raw).WithHint("a kind is scope.category.entity, and a version if it has one, like core.work.note.v1")
	}
	if strings.HasPrefix(kind, "core.agent.") {
		return invalid(ErrKind, "body.kind %.80q is an old name", kind).WithHint("write core.work.%s", strings.TrimPrefix(kind, "core.agent."))
	}
	return nil
}

// invalid is a fault.Invalid that errors.Is finds cause in; the message alone is shown.
func invalid(cause error, format string, args ...any) *fault.Error {
	return fault.Hide(fault.Invalid, cause, format, args...)
}

// stringOf returns the string that raw is, or "".
func stringOf(raw json.RawMessage) (s string) {
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// record turns a draft into a record that prepare can check.
func (d Draft) record() (Record, error) {
	r := Record{Thread: d.Thread, Actor: d.Actor, Act: d.Act, Clock: -1, DataType: d.DataType, JudgedBy: d.JudgedBy}
	if r.DataType == "" {
		r.DataType = Scalar
	}
	if d.Clock != nil {
		if r.Clock = *d.Clock; r.Clock < 0 {
			return Record{}, fault.New(fault.Invalid, "clock %d is out of range", r.Clock).WithHint("it is an integer from 0 to 2^53-1")
		}
	}
	r.Parents = slices.Compact(slices.Sorted(slices.Values(d.Parents)))
	body, err := json.Marshal(d.Body)
	if err != nil {
		return Record{}, fault.Wrap(fault.Invalid, err, "cannot write body as JSON")
	}
	r.Body = body
	return r, r.prepare()
}
