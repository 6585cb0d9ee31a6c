package record

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"playground/fault"
)

// Bounds of a query.
const (
	maxFilter     = 64 << 10 // bytes
	maxNesting    = 16       // of $and, $or and $not
	maxConditions = 128
	maxValues     = 500 // of one $in or $nin
	maxArguments  = 4000
	maxPattern    = 1024 // bytes of a $like
	maxWildcards  = 16   // % of a $like: what it may cost grows with them
	maxSortKeys   = 8
)

// A field is something that can be compared: a column, or a path into the body.
type field struct {
	name   string
	column string // "" for a path that no column holds
	number bool   // the column's type
	path   string // as json_extract(body, ?) takes it; "" for what is not in the body
}

// pathForm is body and up to 16 names of members. A name that holds anything else cannot be asked for.
var pathForm = regexp.MustCompile(`^body(\.[A-Za-z0-9_-]+){1,16}$`)

const maxPath = 512 // bytes

// parseField knows every name that may become SQL. A body's path is never part of the text: it is an argument.
func parseField(name string) (field, error) {
	switch name {
	case "id", "thread", "actor", "act", "data_type", "namespace":
		return field{name: name, column: name}, nil
	case "clock", "created_at", "sequence":
		return field{name: name, column: name, number: true}, nil
	}
	if len(name) > maxPath || !pathForm.MatchString(name) {
		return field{}, fault.New(fault.Invalid, "unknown field path: %.120s", name).
			WithHint("the fields are id, thread, actor, act, clock, data_type, namespace, created_at, sequence and body.<path>")
	}
	f := field{name: name, path: `$."` + strings.ReplaceAll(strings.TrimPrefix(name, "body."), ".", `"."`) + `"`}
	if name == "body.kind" || name == "body.namespace" { // texts wherever they are, and indexed
		f.column = strings.TrimPrefix(name, "body.")
	}
	return f, nil
}

// A compiler turns a filter into an SQL condition. Every method appends its arguments in the order of its marks.
type compiler struct {
	args       []any
	conditions int
}

func (c *compiler) arg(value any) string {
	c.args = append(c.args, value)
	return "?"
}

func invalidFilter(format string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, format, args...).WithHint(`a filter is like {"act":"KNOW","body.count":{"$gte":3}}`)
}

// all compiles an object: all of its members must hold.
func (c *compiler) all(object map[string]any, depth int) (string, error) {
	if depth > maxNesting {
		return "", invalidFilter("the filter nests deeper than %d levels", maxNesting)
	}
	terms := []string{}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		var term string
		var err error
		switch value := object[name]; {
		case name == "$and" || name == "$or":
			term, err = c.list(name, value, depth)
		case name == "$not":
			term, err = c.not(value, depth)
		case strings.HasPrefix(name, "$"):
			err = unknownOperator(name)
		default:
			term, err = c.member(name, value, depth)
		}
		if err != nil {
			return "", err
		}
		terms = append(terms, "("+term+")")
	}
	if len(terms) == 0 {
		return "1", nil
	}
	return strings.Join(terms, " AND "), nil
}

func unknownOperator(name string) error {
	return invalidFilter("unknown operator: %.40q", name).WithHint("the operators are $eq $ne $gt $gte $lt $lte $in $nin $like $ilike $exists $and $or $not")
}

func (c *compiler) list(name string, value any, depth int) (string, error) {
	items, _ := value.([]any)
	if len(items) == 0 {
		return "", invalidFilter("%s wants an array of at least one filter", name)
	}
	terms := make([]string, len(items))
	for i, item := range items {
		object, ok := item.(map[string]any)
		if !ok {
			return "", invalidFilter("%s wants an array of filters", name)
		}
		if c.conditions++; c.conditions > maxConditions {
			return "", tooComplex()
		}
		term, err := c.all(object, depth+1)
		if err != nil {
			return "", err
		}
		terms[i] = "(" + term + ")"
	}
	return strings.Join(terms, map[string]string{"$and": " AND ", "$or": " OR "}[name]), nil
}

func (c *compiler) not(value any, depth int) (string, error) {
	object, ok := value.(map[string]any)
	if !ok {
		return "", invalidFilter("$not wants a filter")
	}
	term, err := c.all(object, depth+1)
	return "(" + term + ") IS NOT TRUE", err
}

// member compiles one field with a value, which means $eq, or with an object of operators.
func (c *compiler) member(name string, value any, depth int) (string, error) {
	f, err := parseField(name)
	if err != nil {
		return "", err
	}
	operators, ok := value.(map[string]any)
	if !ok {
		return c.condition(f, "$eq", value)
	}
	if len(operators) == 0 {
		return "", invalidFilter("field %s is compared with an empty object", name)
	}
	if depth > maxNesting {
		return "", invalidFilter("the filter nests deeper than %d levels", maxNesting)
	}
	terms := []string{}
	for _, operator := range slices.Sorted(maps.Keys(operators)) {
		var term string
		if operator == "$not" {
			if _, ok := operators[operator].(map[string]any); !ok {
				return "", invalidFilter("$not of field %s wants an object of operators", name)
			}
			term, err = c.member(name, operators[operator], depth+1)
			term = "(" + term + ") IS NOT TRUE"
		} else {
			term, err = c.condition(f, operator, operators[operator])
		}
		if err != nil {
			return "", err
		}
		terms = append(terms, "("+term+")")
	}
	return strings.Join(terms, " AND "), nil
}

func tooComplex() error {
	return invalidFilter("the filter is too complex").WithHint("it may have %d conditions and %d values", maxConditions, maxArguments)
}

// condition compiles one operator of one field.
func (c *compiler) condition(f field, operator string, value any) (string, error) {
	if c.conditions++; c.conditions > maxConditions || len(c.args) > maxArguments {
		return "", tooComplex()
	}
	switch operator {
	case "$eq":
		return c.equal(f, operator, value)
	case "$ne":
		term, err := c.equal(f, operator, value)
		return "(" + term + ") IS NOT TRUE", err
	case "$gt", "$gte", "$lt", "$lte":
		return c.compare(f, operator, value)
	case "$in":
		return c.oneOf(f, operator, value)
	case "$nin":
		term, err := c.oneOf(f, operator, value)
		return "(" + term + ") IS NOT TRUE", err
	case "$like", "$ilike":
		return c.like(f, operator, value)
	case "$exists":
		return c.exists(f, value)
	}
	return "", unknownOperator(operator)
}

func (c *compiler) exists(f field, value any) (string, error) {
	want, ok := value.(bool)
	if !ok {
		return "", invalidFilter("$exists of field %s wants true or false", f.name)
	}
	term := f.column
	if f.path != "" {
		term = "json_type(body, " + c.arg(f.path) + ")"
	}
	return term + map[bool]string{true: " IS NOT NULL", false: " IS NULL"}[want], nil
}

// equal compares with a value of any plain type. Null is what is null or not there.
func (c *compiler) equal(f field, operator string, value any) (string, error) {
	switch value := value.(type) {
	case nil:
		if f.column != "" {
			return f.column + " IS NULL", nil
		}
		return "json_extract(body, " + c.arg(f.path) + ") IS NULL", nil
	case bool:
		if f.path == "" {
			return "", wrongType(f, operator)
		}
		return "json_type(body, " + c.arg(f.path) + ") = " + c.arg(strconv.FormatBool(value)), nil
	}
	return c.typed(f, operator, value, " = ")
}

func (c *compiler) compare(f field, operator string, value any) (string, error) {
	sign := map[string]string{"$gt": " > ", "$gte": " >= ", "$lt": " < ", "$lte": " <= "}[operator]
	return c.typed(f, operator, value, sign)
}

func wrongType(f field, operator string) error {
	want := "a text"
	switch {
	case f.number:
		want = "a number"
	case f.path != "":
		want = "a text or a number"
	}
	return invalidFilter("%s of field %s wants %s", operator, f.name, want)
}

// typed compares with a text or a number, and is false where the field has another type.
func (c *compiler) typed(f field, operator string, value any, sign string) (string, error) {
	text, isText := value.(string)
	number, isNumber := value.(json.Number)
	switch {
	case isText && f.column != "" && !f.number:
		return f.column + sign + c.arg(text), nil
	case isNumber && f.column != "" && f.number:
		return f.column + sign + c.arg(numberOf(number)), nil
	case f.path == "" || !isText && !isNumber:
		return "", wrongType(f, operator)
	case isText:
		return "json_type(body, " + c.arg(f.path) + ") = 'text' AND json_extract(body, " + c.arg(f.path) + ")" + sign + c.arg(text), nil
	}
	return "json_type(body, " + c.arg(f.path) + ") IN ('integer', 'real') AND json_extract(body, " + c.arg(f.path) + ")" + sign + c.arg(numberOf(number)), nil
}

// numberOf keeps integers: SQLite compares them with doubles exactly.
func numberOf(n json.Number) any {
	if i, err := n.Int64(); err == nil {
		return i
	}
	f, _ := n.Float64() // Canonicalize has checked it
	return f
}

// oneOf is equal to any of a list. Texts of a column go into one IN, so that its index serves.
func (c *compiler) oneOf(f field, operator string, value any) (string, error) {
	items, ok := value.([]any)
	if !ok || len(items) > maxValues {
		return "", invalidFilter("%s of field %s wants an array of at most %d values", operator, f.name, maxValues)
	}
	if len(items) == 0 {
		return "0", nil
	}
	if f.column != "" && !f.number && !slices.ContainsFunc(items, func(item any) bool { _, isText := item.(string); return !isText }) {
		for _, item := range items {
			c.arg(item)
		}
		return f.column + " IN (" + marks(len(items)) + ")", nil
	}
	terms := make([]string, len(items))
	for i, item := range items {
		term, err := c.equal(f, operator, item)
		if err != nil {
			return "", err
		}
		terms[i] = term
	}
	if len(c.args) > maxArguments {
		return "", tooComplex()
	}
	return strings.Join(terms, " OR "), nil
}

// like matches a pattern of % (anything), _ (one character) and \ (the next character as it is). $ilike takes ASCII letters of
// either case for equal, as SQLite's LIKE does; $like, for which SQLite has no operator of its own, becomes a GLOB.
func (c *compiler) like(f field, operator string, value any) (string, error) {
	pattern, ok := value.(string)
	if !ok || f.number {
		return "", invalidFilter("%s of field %s wants a text", operator, f.name)
	}
	if len(pattern) > maxPattern || strings.Count(pattern, "%") > maxWildcards {
		return "", invalidFilter("the pattern of field %s is too complex", f.name).WithHint("it may have %d bytes and %d %%", maxPattern, maxWildcards)
	}
	like, glob, ok := translate(pattern)
	if !ok {
		return "", invalidFilter(`the pattern of field %s ends in \`, f.name).WithHint(`write \\ for a backslash`)
	}
	test := " GLOB " + "?"
	argument := glob
	if operator == "$ilike" {
		test, argument = ` LIKE ? ESCAPE '\'`, like
	}
	if f.column != "" {
		c.arg(argument)
		return f.column + test, nil
	}
	term := "json_type(body, " + c.arg(f.path) + ") = 'text' AND json_extract(body, " + c.arg(f.path) + ")" + test
	c.arg(argument)
	return term, nil
}

// translate returns the pattern for LIKE ESCAPE '\' and for GLOB.
func translate(pattern string) (like, glob string, ok bool) {
	var l, g strings.Builder
	literal := func(r rune) {
		if strings.ContainsRune(`%_\`, r) {
			l.WriteByte('\\')
		}
		l.WriteRune(r)
		if strings.ContainsRune(`*?[`, r) {
			g.WriteString("[" + string(r) + "]")
			return
		}
		g.WriteRune(r)
	}
	escaped := false
	for _, r := range pattern {
		switch {
		case escaped:
			escaped = false
			literal(r)
		case r == '\\':
			escaped = true
		case r == '%':
			l.WriteByte('%')
			g.WriteByte('*')
		case r == '_':
			l.WriteByte('_')
			g.WriteByte('?')
		default:
			literal(r)
		}
	}
	return l.String(), g.String(), !escaped
}
