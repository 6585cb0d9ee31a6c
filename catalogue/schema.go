package catalogue

import (
	"maps"
	"slices"
)

// Schemas of the structured results. They are open to additions: a client must not refuse a field it does not know.

// schema is a JSON schema of an object whose fields are all required but the optional ones.
func schema(fields map[string]any, optional ...string) map[string]any {
	required := []string{}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(optional, name) {
			required = append(required, name)
		}
	}
	return map[string]any{"type": "object", "properties": fields, "required": required}
}

func of(kinds ...string) map[string]any {
	if len(kinds) == 1 {
		return map[string]any{"type": kinds[0]}
	}
	return map[string]any{"type": kinds}
}

func oneOf(values ...string) map[string]any { return map[string]any{"type": "string", "enum": values} }

func list(items map[string]any) map[string]any {
	return map[string]any{"type": "array", "items": items}
}

func sessionSchema() map[string]any {
	return schema(map[string]any{
		"session": of("string"), "persona": of("string"), "isolation": of("string"), "network": of("string"),
		"append_only": schema(map[string]any{"enforced": of("boolean"), "reason": of("string")}),
	})
}

func closedSchema() map[string]any {
	return schema(map[string]any{"session": of("string"), "handles": of("integer")})
}

func resultFields() map[string]any {
	return map[string]any{
		"exit_code": of("integer", "null"), "signal": of("string", "null"), "error": of("string"),
		"outcome":      oneOf("exited", "signalled", "timed_out", "cancelled", "failed"),
		"stdout_bytes": of("integer"), "stderr_bytes": of("integer"), "duration_ms": of("integer"), "hints": list(of("string")),
		"cleanup": schema(map[string]any{
			"killed": of("integer"), "survivors": of("integer"), "proven": of("boolean"), "elapsed_ms": of("integer"),
		}),
	}
}

func execSchema() map[string]any {
	fields := resultFields()
	fields["truncated"] = of("boolean")
	return schema(fields, "error")
}

func stateSchema() map[string]any { return oneOf("running", "cancelling", "terminal") }

func jobSchema() map[string]any {
	return schema(map[string]any{"job_id": of("string"), "state": stateSchema(), "cursor": of("integer")})
}

func pollSchema() map[string]any {
	end := schema(resultFields(), "error")
	end["type"] = []string{"object", "null"}
	return schema(map[string]any{
		"job_id": of("string"), "state": stateSchema(), "next_cursor": of("integer"), "has_more": of("boolean"),
		"gap": of("boolean"), "dropped_bytes": of("integer"), "result": end,
		"chunks": list(schema(map[string]any{
			"sequence": of("integer"), "stream": oneOf("stdout", "stderr"), "text": of("string"), "base64": of("string"),
		}, "text", "base64")),
	})
}

func writeSchema() map[string]any {
	return schema(map[string]any{"path": of("string"), "size": of("integer"), "mime_type": of("string"), "atomic": of("boolean")})
}
