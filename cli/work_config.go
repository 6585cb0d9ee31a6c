package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"playground/fault"
	"playground/policy"
	"playground/record"
	"playground/workapi"
)

// ruleKind is the kind of a record with a permission rule.
const ruleKind = "core.permission_rule.v1"

// A PermissionRule is what "playground config add-permission-rule" writes.
type PermissionRule struct {
	Name       string
	Namespace  string
	Expression string
	Action     string
	Priority   int64
	Disable    bool
}

// AddPermissionRule writes a rule. It holds from the next tool call on, in runs that are going too.
func (e *Env) AddPermissionRule(ctx context.Context, p PermissionRule) error {
	body, err := json.Marshal(map[string]any{"kind": ruleKind, "topic": "permission_rule", "name": p.Name, "namespace": or(p.Namespace, "default"),
		"expression": p.Expression, "action": p.Action, "priority": p.Priority, "enabled": !p.Disable})
	if err != nil {
		return err
	}
	if _, err := policy.ParseRule(body); err != nil {
		return err
	}
	return e.works(func(client *workapi.Client) error {
		written, err := client.WriteRecord(ctx, workapi.NewRecord{Act: record.ActLearn, Actor: record.EngineDID, Thread: record.ConfigThread, Body: body})
		if err != nil {
			return err
		}
		if e.JSON {
			return e.printJSON(written)
		}
		state := "holds from the next tool call on"
		if p.Disable {
			state = "is switched off"
		}
		_, err = fmt.Fprintf(e.Stdout, "rule %s %s\nRecord created on thread %s\nid %s\n", safe(p.Name), state, written.Thread, written.ID)
		return err
	})
}

// ListPermissionRules prints the rules in the order they are asked.
func (e *Env) ListPermissionRules(ctx context.Context) error {
	return e.works(func(client *workapi.Client) error {
		list, err := client.Rules(ctx)
		if err != nil {
			return err
		}
		return printList(e, list, list.Data, func() error {
			if len(list.Data) == 0 {
				_, err := fmt.Fprintln(e.Stderr, "no rules: nothing objects to a tool call; add one: playground config add-permission-rule")
				return err
			}
			var rows [][]string
			for _, r := range list.Data {
				rows = append(rows, []string{safe(r.Name), string(r.Action), strconv.FormatInt(r.Priority, 10), yesNo(r.Enabled), safe(r.Namespace), short(flat(r.Expression), 80)})
			}
			return table(e.Stdout, []string{"NAME", "ACTION", "PRIORITY", "ENABLED", "NAMESPACE", "EXPRESSION"}, rows)
		})
	})
}

// PrintConfigPath prints which configuration file is used.
func (e *Env) PrintConfigPath() error {
	path, err := e.ConfigPath()
	if err != nil {
		return err
	}
	if e.JSON {
		return e.printJSON(map[string]string{"path": path})
	}
	_, err = fmt.Fprintln(e.Stdout, path)
	return err
}

// ConfigShow prints the configuration file, if it is one that the daemons would take.
func (e *Env) ConfigShow() error {
	if _, err := e.load(); err != nil {
		return err
	}
	path, err := e.ConfigPath()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if e.JSON {
		return e.printJSON(map[string]string{"path": path, "text": string(text)})
	}
	_, err = e.Stdout.Write(text)
	return err
}

// expressionCache is how many expressions an evaluator keeps that is used once.
const expressionCache = 4

// contextOf returns the names that an expression may use.
func contextOf(name string) (policy.Context, error) {
	switch in := policy.Context(name); in {
	case policy.Permission, policy.Observer:
		return in, nil
	}
	return "", fault.New(fault.Invalid, "there is no context %q", name).WithHint("the contexts are %s and %s", policy.Permission, policy.Observer)
}

// ExprCheck compiles an expression.
func (e *Env) ExprCheck(expression, context string) error {
	in, err := contextOf(context)
	if err != nil {
		return err
	}
	if err := policy.New(expressionCache).Check(expression, in); err != nil {
		return err
	}
	if e.JSON {
		return e.printJSON(map[string]any{"object": "expression", "ok": true, "context": in})
	}
	_, err = fmt.Fprintln(e.Stdout, "ok")
	return err
}

// ExprEval evaluates an expression as the guard would: over a record for a permission, over a finished call for a hook.
func (e *Env) ExprEval(expression, context, recordJSON string) error {
	in, err := contextOf(context)
	if err != nil {
		return err
	}
	object, err := objectOf("--record", recordJSON)
	if err != nil {
		return err
	}
	evaluator := policy.New(expressionCache)
	if err := evaluator.Check(expression, in); err != nil {
		return err
	}
	var value bool
	if in == policy.Permission {
		value, err = evalRule(evaluator, expression, object)
	} else {
		value, err = evalHook(evaluator, expression, object)
	}
	if err != nil {
		return err
	}
	if e.JSON {
		return e.printJSON(map[string]any{"object": "expression", "value": value, "context": in})
	}
	_, err = fmt.Fprintln(e.Stdout, value)
	return err
}

// evalRule asks a rule of this expression about a record; a tool call is a record of the act CALL whose body names the tool.
func evalRule(evaluator *policy.Evaluator, expression string, object map[string]any) (bool, error) {
	values, err := plain(object)
	if err != nil {
		return false, err
	}
	for key, value := range map[string]any{"act": "CALL", "actor": "", "thread": "", "body": map[string]any{}, "clock": int64(0), "data_type": "SCALAR", "parents": []any{}} {
		if _, given := values[key]; !given {
			values[key] = value
		}
	}
	actor, _ := values["actor"].(string)
	resource, _ := values["resource"].(string)
	if body, _ := values["body"].(map[string]any); resource == "" {
		if tool, _ := body["tool"].(string); tool != "" {
			resource = "tool:" + tool
		}
	}
	delete(values, "resource")
	rule := policy.Rule{Name: "expression", Expression: expression, Action: policy.Deny, Enabled: true}
	decision := evaluator.Decide([]policy.Rule{rule}, policy.Subject{Actor: actor, Namespace: "default", Resource: resource, Record: values, Now: time.Now()})
	if len(decision.Skipped) > 0 {
		return false, fault.New(fault.Invalid, "the expression fails on this record: a rule of it would be skipped").WithHint("guard fields that may be missing with has(), such as has(record.body.tool)")
	}
	return decision.Action == policy.Deny, nil
}

// evalHook asks a hook of this expression about a call: {"tool","args","status","content"}.
func evalHook(evaluator *policy.Evaluator, expression string, object map[string]any) (bool, error) {
	encoded, err := json.Marshal(object)
	if err != nil {
		return false, err
	}
	var call struct {
		Tool    string         `json:"tool"`
		Args    map[string]any `json:"args"`
		Status  string         `json:"status"`
		Content string         `json:"content"`
	}
	decoder := json.NewDecoder(strings.NewReader(string(encoded)))
	if err := decoder.Decode(&call); err != nil {
		return false, fault.Wrap(fault.Invalid, err, "--record is not a finished call")
	}
	_, fires, err := evaluator.Fires(policy.Hook{Name: "expression", When: expression, Text: "-", MaxFires: 1, Enabled: true},
		policy.HookCall{Tool: call.Tool, Args: call.Args, Status: call.Status, Content: call.Content})
	return fires, err
}

// plain turns the numbers of a decoded object into int64 where they are whole, as the guard has them.
func plain(object map[string]any) (map[string]any, error) {
	out := make(map[string]any, len(object))
	for key, value := range object {
		converted, err := plainValue(value)
		if err != nil {
			return nil, err
		}
		out[key] = converted
	}
	return out, nil
}

func plainValue(value any) (any, error) {
	switch v := value.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, nil
		}
		return v.Float64()
	case map[string]any:
		return plain(v)
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			converted, err := plainValue(item)
			if err != nil {
				return nil, err
			}
			out[i] = converted
		}
		return out, nil
	}
	return value, nil
}
