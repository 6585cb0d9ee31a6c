package loop

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"playground/policy"
)

// The built-in observations.
const (
	RuleRepeat    = "repeat_guard"
	RuleAbsence   = "absence_guard"
	RuleTruncated = "truncated_call"
)

const (
	repeatThreshold  = 3 // identical calls in a row
	absenceThreshold = 2 // empty reads of one thread
	defaultFires     = 3 // of a hook, a run
	hookCache        = 256
	maxWatched       = 4096 // threads whose empty reads are counted
)

// An observation is something the environment noticed: shown to the model beside the tool's result, never in its place.
// Observations are only ever added, by each rule on its own, so that no order of rules can disarm one.
type observation struct{ rule, text, source string }

// A watcher looks at finished calls for the built-in observations.
type watcher struct {
	last    string // tool and arguments of the call before
	repeats int
	empty   map[string]int // thread -> empty reads
}

// see returns what is to be said about a call. It counts every call that was answered, denied ones too: an actor that
// hammers a refused call is in the same loop as one that repeats a read.
func (w *watcher) see(tool, argsHash string, result Result) []observation {
	var seen []observation
	if key := tool + "\x00" + argsHash; key == w.last {
		w.repeats++
	} else {
		w.last, w.repeats = key, 1
	}
	if w.repeats >= repeatThreshold {
		seen = append(seen, observation{RuleRepeat, fmt.Sprintf("You have called %s with the same arguments %d times in a row. "+
			"Calling it again like this will not bring anything new. Change something, or stop and say what you found.", tool, w.repeats), SourceBuiltin})
	}
	if thread, empty := emptyRead(result); thread != "" {
		if n := w.emptyReads(thread, empty); n >= absenceThreshold {
			seen = append(seen, observation{RuleAbsence, fmt.Sprintf("You have already looked: this was read %d of thread %s that came back empty. "+
				"What you look for is not there. Look elsewhere, or go on without it.", n, thread), SourceBuiltin})
		}
	}
	return seen
}

// emptyReads counts a read of a thread and returns how many in a row were empty.
func (w *watcher) emptyReads(thread string, empty bool) int {
	if !empty {
		delete(w.empty, thread)
		return 0
	}
	if w.empty == nil || len(w.empty) >= maxWatched {
		w.empty = map[string]int{}
	}
	w.empty[thread]++
	return w.empty[thread]
}

// emptyRead returns the thread that a result's data says was read, and whether nothing was found there. Every tool that
// reads a thread answers with data of this form.
func emptyRead(result Result) (thread string, empty bool) {
	var data struct {
		Thread string `json:"thread"`
		Total  *int64 `json:"total"`
	}
	if result.Status != StatusOK || len(result.Data) == 0 || json.Unmarshal(result.Data, &data) != nil || data.Total == nil {
		return "", false
	}
	return data.Thread, *data.Total == 0
}

// truncatedObservation is said once of a reply whose calls were cut.
func truncatedObservation(calls int) observation {
	return observation{RuleTruncated, fmt.Sprintf("Your reply hit the output limit, so its tool calls (%d) may be incomplete and none of them was run. "+
		"Send them again in a shorter reply, one at a time if they are long.", calls), SourceBuiltin}
}

// A hookSet runs the hooks of a run.
type hookSet struct {
	rules  *policy.Evaluator
	fires  map[string]int
	errors map[string]bool
}

// see returns what the hooks say about a call. A hook that fails says nothing; its name goes into the next turn's record.
func (h *hookSet) see(hooks []policy.Hook, tool string, args json.RawMessage, result Result) []observation {
	var seen []observation
	var values map[string]any
	for _, hook := range hooks {
		most := hook.MaxFires
		if most <= 0 {
			most = defaultFires
		}
		if !hook.Enabled || hook.Name == "" || h.fires[hook.Name] >= most {
			continue
		}
		if h.rules == nil {
			*h = hookSet{rules: policy.New(hookCache), fires: map[string]int{}, errors: map[string]bool{}}
		}
		if values == nil && json.Unmarshal(args, &values) != nil {
			values = map[string]any{}
		}
		// Each hook gets a map of its own: none may change what the next one sees.
		text, fires, err := h.rules.Fires(hook, policy.HookCall{Tool: tool, Args: maps.Clone(values), Status: result.Status, Content: result.Content})
		switch {
		case err != nil:
			h.errors[printable(hook.Name, maxName)] = true
		case fires && text != "":
			h.fires[hook.Name]++
			seen = append(seen, observation{hook.Name, Bound(text, maxRemark), SourceHook})
		}
	}
	return seen
}

// takeErrors returns the names of the hooks that failed since it was last called, sorted.
func (h *hookSet) takeErrors() []string {
	names := slices.Sorted(maps.Keys(h.errors))
	clear(h.errors)
	return names
}
