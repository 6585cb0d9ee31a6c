package localapi_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"playground/fault"
	"playground/jail"
	"playground/localapi"
	"playground/localapi/facultyapi"
	"playground/localapi/jailapi"
	"playground/localapi/jobapi"
	"playground/localapi/serviceapi"
	"playground/localapi/userapi"
	"playground/localapi/workerapi"
)

// Nobody is called through these: only the tables are looked at.
type (
	noWorkers   struct{ facultyapi.Workers }
	noUsers     struct{ userapi.Users }
	noTemplates struct{ jailapi.Templates }
)

func (noTemplates) List(context.Context) ([]jail.Template, error) { return nil, nil }

// who are all routes of all daemons, and who may use each. Callers are root and the transport's user, which speaks to strangers: what it
// may use is what a stranger who has taken it over can do. Whoever adds a route decides that here.
var who = map[string]string{
	"jaild POST /v1/sandboxes":                    "callers",
	"jaild GET /v1/sandboxes":                     "callers",
	"jaild GET /v1/sandboxes/{tenant}":            "callers",
	"jaild DELETE /v1/sandboxes/{tenant}":         "callers",
	"jaild POST /v1/sandboxes/{tenant}/open":      "callers",
	"jaild POST /v1/sandboxes/{tenant}/close":     "callers",
	"jaild POST /v1/sandboxes/{tenant}/dial":      "callers",
	"jaild GET /v1/sandboxes/{tenant}/attachment": "runners",
	"jaild POST /v1/sandboxes/{tenant}/connect":   "runners",
	"jaild POST /v1/templates":                    "operators",
	"jaild GET /v1/templates":                     "callers",
	"jaild DELETE /v1/templates/{name}":           "operators",
	"jaild POST /v1/audit/{file}/seal":            "callers",

	"reaperd POST /v1/exec":                    "callers",
	"reaperd POST /v1/jobs":                    "callers",
	"reaperd POST /v1/jobs/{id}/poll":          "callers",
	"reaperd POST /v1/jobs/{id}/cancel":        "callers",
	"reaperd DELETE /v1/tenants/{tenant}/jobs": "callers",
	"reaperd GET /v1/status":                   "callers",
	"reaperd POST /v1/ack":                     "operators",
	"reaperd GET /v1/usage":                    "callers",
	"reaperd POST /v1/clean":                   "operators",
	"reaperd POST /v1/services":                "operators",
	"reaperd GET /v1/services":                 "operators",
	"reaperd POST /v1/services/{id}/poll":      "operators",
	"reaperd POST /v1/services/{id}/stop":      "operators",
	"reaperd POST /v1/workers":                 "callers",

	"facultyd GET /v1/workers":               "callers",
	"facultyd POST /v1/workers/{id}/health":  "callers",
	"facultyd POST /v1/workers/{id}/start":   "operators",
	"facultyd POST /v1/workers/{id}/stop":    "operators",
	"facultyd POST /v1/workers/{id}/restart": "operators",
	"facultyd GET /v1/workers/{id}/log":      "operators",

	"playgroundd POST /v1/users":                  "operators",
	"playgroundd GET /v1/users":                   "operators",
	"playgroundd GET /v1/users/{tenant}":          "operators",
	"playgroundd DELETE /v1/users/{tenant}":       "operators",
	"playgroundd POST /v1/users/{tenant}/attach":  "operators",
	"playgroundd POST /v1/users/{tenant}/detach":  "operators",
	"playgroundd GET /v1/users/{tenant}/token":    "operators",
	"playgroundd POST /v1/users/{tenant}/token":   "operators",
	"playgroundd DELETE /v1/users/{tenant}/token": "operators",
	"playgroundd POST /v1/operator/tokens":        "operators",
	"playgroundd GET /v1/operator/tokens":         "operators",
	"playgroundd DELETE /v1/operator/tokens/{id}": "operators",
	"playgroundd GET /v1/status":                  "operators",
	"playgroundd GET /healthz":                    "operators",
	"playgroundd GET /metrics":                    "operators",
}

// named is a rule that refuses and says its name.
func named(name string) localapi.Access {
	return func(localapi.Peer) error { return fault.New(fault.Denied, "rule:%s", name) }
}

func tables() map[string][]localapi.Route {
	callers, operators, runners := named("callers"), named("operators"), named("runners")
	return map[string][]localapi.Route{
		"jaild": append(jailapi.Routes(nil, noTemplates{}, jailapi.Access{Callers: callers, Runners: runners, Operators: operators}),
			jailapi.AuditRoutes(nil, jailapi.Access{Callers: callers, Runners: runners, Operators: operators})...),
		"reaperd": slices.Concat(jobapi.Routes(nil, nil, jobapi.Access{Callers: callers, Operators: operators}),
			serviceapi.Routes(nil, operators), workerapi.NewService(nil).Routes(callers)),
		"facultyd":    facultyapi.Routes(noWorkers{}, facultyapi.Access{Callers: callers, Operators: operators}),
		"playgroundd": userapi.Routes(noUsers{}, operators, http.NotFoundHandler()),
	}
}

// TestWhoMay: every route of every daemon has the access rule that it is meant to have, asks it before it does anything, and is known
// here.
func TestWhoMay(t *testing.T) {
	left := maps.Clone(who)
	for daemon, routes := range tables() {
		handler := localapi.Handler(routes, localapi.Options{})
		for _, route := range routes {
			name := fmt.Sprintf("%s %s %s", daemon, route.Method, route.Path)
			want, known := left[name]
			delete(left, name)
			if !known || route.Access == nil {
				t.Errorf("%s is not known here, or has no access rule", name)
				continue
			}
			if err := route.Access(localapi.Peer{}); err == nil || err.Error() != "rule:"+want {
				t.Errorf("%s: got %v, want the rule %s", name, err, want)
			}
			answer := httptest.NewRecorder()
			path := strings.NewReplacer("{tenant}", "ann", "{id}", "x", "{name}", "x", "{file}", "x").Replace(route.Path)
			handler.ServeHTTP(answer, httptest.NewRequest(route.Method, path, strings.NewReader("{}")))
			if answer.Code != http.StatusForbidden || !strings.Contains(answer.Body.String(), "rule:"+want) {
				t.Errorf("%s: %d %s", name, answer.Code, answer.Body)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		t.Errorf("%s is gone", name)
	}
}

// FuzzDenied: whatever somebody asks who may use nothing, no handler runs. One would crash here, because there is nothing behind it.
func FuzzDenied(f *testing.F) {
	for name := range who {
		_, rest, _ := strings.Cut(name, " ")
		method, path, _ := strings.Cut(rest, " ")
		f.Add(method, path, "{}")
	}
	f.Add("POST", "/v1/workers//start", `{"a":1}`)
	f.Add("POST", "/v1/workers/../services", "")
	f.Add("GET", "//v1/services", "")
	f.Add("CONNECT", "/v1/services", "")
	handlers := make(map[string]http.Handler)
	for daemon, routes := range tables() {
		handlers[daemon] = localapi.Handler(routes, localapi.Options{})
	}
	f.Fuzz(func(t *testing.T, method, path, body string) {
		r, err := http.NewRequest(method, "http://local/", strings.NewReader(body))
		if err != nil {
			t.Skip()
		}
		r.URL.Path = path
		for daemon, handler := range handlers {
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, r.Clone(t.Context()))
			if answer.Code < 300 {
				t.Fatalf("%s answered %q %q with %d", daemon, method, path, answer.Code)
			}
		}
	})
}
