package policy

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"playground/fault"
)

func TestParseRule(t *testing.T) {
	for body, want := range map[string]Rule{
		`{"name":"stop-that","action":"deny","expression":"resource == 'tool:bash'"}`: {
			Name: "stop-that", Namespace: "default", Expression: "resource == 'tool:bash'", Action: Deny, Enabled: true},
		`{"kind":"core.permission_rule.v1","topic":"permission_rule","name":"A.b_9","namespace":"team/x","action":"allow","priority":-7,"enabled":false,"expression":"record.body.ok"}`: {
			Name: "A.b_9", Namespace: "team/x", Expression: "record.body.ok", Action: Allow, Priority: -7},
	} {
		got, err := ParseRule(json.RawMessage(body))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", body, err, diff)
		}
	}
}

// rule is the body of a good rule with the field replaced.
func rule(field string) string {
	name, _, _ := strings.Cut(field, ":")
	var fields []string
	for _, good := range []string{`"name":"a"`, `"action":"deny"`, `"expression":"true"`} {
		if !strings.HasPrefix(good, name+":") {
			fields = append(fields, good)
		}
	}
	return "{" + strings.Join(append(fields, field), ",") + "}"
}

func TestParseRuleRefuses(t *testing.T) {
	for body, needle := range map[string]string{
		``:                                      "not a JSON object",
		`null`:                                  "not a JSON object",
		`[]`:                                    "not a JSON object",
		`{"name":"a"`:                           "not a JSON object",
		`{"name":"a"} {}`:                       "followed by",
		"{\"name\":\"\xff\"}":                   "not UTF-8",
		rule(`"name":""`):                       "name is missing",
		rule(`"name":7`):                        "name is not a text",
		rule(`"name":null`):                     "name is not a text",
		rule(`"name":"a b"`):                    "name \"a b\" is not",
		rule(`"name":"../a"`):                   "is not 1 to 64",
		rule(`"name":"a\u001b[31m"`):            `"a.[31m"`,
		rule(`"action":"ask"`):                  `action is "ask", not allow or deny`,
		rule(`"action":"Deny"`):                 "not allow or deny",
		rule(`"action":true`):                   "action is not a text",
		rule(`"priority":1.5`):                  "priority is not a whole number",
		rule(`"priority":"1"`):                  "priority is not a whole number",
		rule(`"priority":99999999999999999999`): "priority is not a whole number",
		rule(`"priority":9007199254740993`):     "beyond",
		rule(`"enabled":"yes"`):                 "enabled is not true or false",
		rule(`"enabled":0`):                     "enabled is not true or false",
		rule(`"namespace":""`):                  "namespace",
		rule(`"namespace":"a b"`):               "namespace",
		rule(`"topic":"hook"`):                  "topic",
		rule(`"kind":"core.hook.v1"`):           "kind",
		rule(`"when":"true"`):                   `no field "when"`,
		rule(`"Name":"b"`):                      `no field "Name"`,
		`{"name":"a","name":"b","action":"deny","expression":"true"}`: "twice",
		rule(`"expression":""`):           "expression: the expression is empty",
		rule(`"expression":" "`):          "expression: the expression is empty",
		rule(`"expression":1`):            "expression is not a text",
		rule(`"expression":"1"`):          "of type int, not bool",
		rule(`"expression":"'a'.size()"`): "of type int, not bool",
		rule(`"expression":"` + strings.Repeat("1", maxExpression) + `x"`): "8193 bytes",
		rule(`"expression":"` + strings.Repeat("x", maxBody) + `"`):        "bytes",
		rule(`"expression":"nothing"`):                                     "expression: 1:1: undeclared reference to 'nothing'",
		rule(`"expression":"tool == 'a'"`):                                 "1:1: undeclared reference to 'tool'", // a hook's name
		rule(`"expression":"resource.matches('(')"`):                       "1:18: bad pattern",
		rule(`"expression":"matches(resource, '(')"`):                      "bad pattern",
		rule(`"expression":"resource.matches('(x{900}){2}')"`):             "bad pattern",
		rule(`"expression":"resource == 7"`):                               "found no matching overload",
		rule(`"expression":"now() > timestamp('tomorrow')"`):               "1:19",
		rule(`"expression":"env('HOME') == ''"`):                           "undeclared reference to 'env'",
	} {
		_, err := ParseRule(json.RawMessage(body))
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), needle) {
			t.Errorf("%.100s: %v, want %q", body, err, needle)
		}
	}
}

// A person who wrote a bad expression sees where.
func TestCaret(t *testing.T) {
	for expr, want := range map[string]string{
		"resource == 'a' &&\n  \tnope('x')": "2:8: undeclared reference to 'nope' (in container '')\n     nope('x')\n         ^",
		"'äöü' == oops":                     "1:10: undeclared reference to 'oops' (in container '')\n  'äöü' == oops\n           ^",
		"'" + strings.Repeat("x", 200) + "' == oops": "1:207: undeclared reference to 'oops' (in container '')\n  " +
			strings.Repeat("x", 55) + "' == oops\n  " + strings.Repeat(" ", 60) + "^",
	} {
		err := New(1).Check(expr, Permission)
		if err == nil || strings.ReplaceAll(err.Error(), " (in container '')", "") != strings.ReplaceAll(want, " (in container '')", "") {
			t.Errorf("got:\n%v\nwant:\n%s", err, want)
		}
	}
}

func TestParseHook(t *testing.T) {
	body := `{"kind":"core.hook.v1","topic":"hook","name":"look","when":"tool == 'bash' && status == 'error'","text":"${tool} said ${status}"}`
	want := Hook{Name: "look", Namespace: "default", When: "tool == 'bash' && status == 'error'", Text: "${tool} said ${status}", MaxFires: 3, Enabled: true}
	got, err := ParseHook(json.RawMessage(body))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	hook := func(field string) string { return `{"name":"a","when":"true",` + field + `}` }
	for body, needle := range map[string]string{
		hook(`"text":""`):                                  "text is empty",
		hook(`"text":" "`):                                 "text is empty",
		hook(`"namespace":"x"`):                            "text is empty",
		hook(`"text":"${args}"`):                           `"${args}", but only`,
		hook(`"text":"${tool"`):                            `"${tool", but only`,
		hook(`"text":"` + strings.Repeat("x", 5000) + `"`): "5000 bytes",
		hook(`"text":"x","max_fires_per_run":0`):           "max_fires_per_run is 0",
		hook(`"text":"x","max_fires_per_run":101`):         "max_fires_per_run is 101",
		hook(`"text":"x","max_fires":1`):                   `no field "max_fires"`,
		`{"name":"a","when":"resource == 'x'","text":"x"}`: "when: 1:1: undeclared reference to 'resource'",
		`{"name":"a","when":"now() == now()","text":"x"}`:  "when: 1:4: undeclared reference to 'now'",
	} {
		if _, err := ParseHook(json.RawMessage(body)); fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), needle) {
			t.Errorf("%.100s: %v, want %q", body, err, needle)
		}
	}
	for _, name := range []string{"priority", "action", "suppress", "replace", "order", "instead_of"} {
		_, err := ParseHook(json.RawMessage(hook(`"text":"x","` + name + `":1`)))
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), `no field "`+name+`"`) || fault.HintOf(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParseRule(f *testing.F) {
	for _, seed := range []string{rule(`"priority":1`), rule(`"expression":"record.body.args.x.all(y, y > 1)"`), rule(`"expression":"resource.matches('(')"`), "{", `{"a":1,"a":2}`} {
		f.Add([]byte(seed))
	}
	e := New(16)
	f.Fuzz(func(t *testing.T, body []byte) {
		rule, err := ParseRule(body)
		if err != nil {
			checkFault(t, err)
			return
		}
		if err := e.Check(rule.Expression, Permission); err != nil {
			t.Errorf("a rule was taken whose expression does not run: %v", err)
		}
		e.Decide([]Rule{rule}, Subject{})
	})
}

func FuzzParseHook(f *testing.F) {
	f.Add([]byte(`{"name":"a","when":"tool == 'x'","text":"${tool}"}`))
	f.Add([]byte(`{"name":"a","when":"content.contains(args.x)","text":"${status","priority":1}`))
	e := New(16)
	f.Fuzz(func(t *testing.T, body []byte) {
		hook, err := ParseHook(body)
		if err != nil {
			checkFault(t, err)
			return
		}
		if err := e.Check(hook.When, Observer); err != nil {
			t.Errorf("a hook was taken whose condition does not run: %v", err)
		}
		if text, fires, _ := e.Fires(hook, HookCall{Tool: "x"}); !fires && text != "" {
			t.Errorf("a silent hook said %q", text)
		}
	})
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{"true", "resource.matches('(a*)*')", "[1,2].map(x, x * 2).exists(y, y > 3)", "has(record.body.x) ? 1 : 'a'",
		"\"\\u0000\" == resource", "((((", "task('a').b.c[0] == {1:2}[1]", "now() - duration('1h') < now()", "b'\\xff' == bytes(resource)", "dyn(1)"} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	e := New(4)
	f.Fuzz(func(t *testing.T, expr string, permission bool) {
		in := Observer
		if permission {
			in = Permission
		}
		if err := e.Check(expr, in); err != nil {
			checkFault(t, err)
		} else if permission {
			e.Decide([]Rule{{Name: "x", Expression: expr, Action: Deny, Enabled: true}}, Subject{Resource: expr})
		}
	})
}

// checkFault holds that an error can be shown.
func checkFault(t *testing.T, err error) {
	t.Helper()
	if fault.KindOf(err) != fault.Invalid || err.Error() == "" {
		t.Errorf("%q is of kind %q", err, fault.KindOf(err))
	}
	for _, r := range err.Error() {
		if r != '\n' && r < ' ' || r == 0x7f {
			t.Errorf("%q has a control character", err)
		}
	}
}
