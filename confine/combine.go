package confine

import (
	"errors"
	"fmt"
	"strings"
)

// combine makes a report of what was seen from outside and of a worker's own attempts. A layer is green only if both hold, and
// if the worker tried everything that it should have.
func combine(checks map[Layer]func() (string, error), attempts []Attempt, unverified func(Layer) bool) Report {
	passed, failed := make(map[Layer]int), make(map[Layer][]string)
	for _, a := range attempts {
		if a.Pass {
			passed[a.Layer]++
		} else {
			failed[a.Layer] = append(failed[a.Layer], fmt.Sprintf("%s: %s, want %s", a.Name, a.Errno, a.Expect))
		}
	}
	var r Report
	for _, layer := range Layers() {
		state := LayerState{Name: layer}
		detail, err := "", errors.New("nobody looked at it")
		if check, ok := checks[layer]; ok {
			detail, err = check()
		}
		switch least := attemptsOf(layer); {
		case unverified(layer):
			state.OK, detail = true, "not verified"
		case err != nil:
			detail = err.Error()
		case len(failed[layer]) > 0:
			detail = strings.Join(failed[layer], "; ")
		case passed[layer] < least:
			detail = fmt.Sprintf("the worker tried %d of %d things", passed[layer], least)
		default:
			state.OK = true
			if least > 0 {
				detail += fmt.Sprintf("; %d attempts failed as they must", passed[layer])
			}
		}
		state.Detail = clip(detail)
		r.Layers = append(r.Layers, state)
	}
	return r
}

// clip bounds what a hostile worker's word adds to errors and logs.
func clip(s string) string {
	const most = 400
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strings.ToValidUTF8(s, "?")
}
