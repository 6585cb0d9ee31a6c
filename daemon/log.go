package daemon

import (
	"fmt"
	"io"
	"time"

	"github.com/rs/zerolog"
)

// Logger returns a logger that writes one JSON object a line to w, with the time in UTC and the component's name. level is
// "debug", "info", "warn" or "error".
func Logger(w io.Writer, level, component string) (zerolog.Logger, error) {
	l, err := zerolog.ParseLevel(level)
	if err != nil || l < zerolog.DebugLevel || l > zerolog.ErrorLevel {
		return zerolog.Nop(), fmt.Errorf("cannot use log level %q: it must be debug, info, warn or error", level)
	}
	return zerolog.New(w).Level(l).Hook(clock{}).With().Str("component", component).Logger(), nil
}

// clock adds the time. zerolog's own timestamp has its format in a package variable, which other packages share.
type clock struct{}

// Run implements zerolog.Hook.
func (clock) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(zerolog.TimestampFieldName, time.Now().UTC().Format("2006-01-02T15:04:05.000Z"))
}

// A SecurityEvent is what an auditor looks for. The names are constant: alerts are built on them.
type SecurityEvent string

// The security events.
const (
	Denied  SecurityEvent = "denied"  // somebody was refused
	Minted  SecurityEvent = "minted"  // a credential was made
	Revoked SecurityEvent = "revoked" // a credential was taken back
	Started SecurityEvent = "started" // a daemon took up its privileges
)

// SecurityFields says who and why. There is no field that could hold a token, a command or output.
type SecurityFields struct {
	Tenant  string  // whose
	TokenID string  // the public part of a token, never the secret
	Remote  string  // network address of the caller
	UID     *uint32 // local caller
	Action  string  // what was asked for: a route or an operation
	Reason  string  // a constant text, or an error's that holds no secret
}

// A SecurityLog writes security events. They carry "security":true and pass every log level.
type SecurityLog struct{ logger zerolog.Logger }

// Security returns the security log that writes where logger does.
func Security(logger zerolog.Logger) SecurityLog {
	return SecurityLog{logger: logger.Level(zerolog.InfoLevel).With().Bool("security", true).Logger()}
}

// Record writes one event, with the fields that are set.
func (s SecurityLog) Record(event SecurityEvent, f SecurityFields) {
	e := s.logger.Info()
	for _, field := range []struct{ name, value string }{
		{"tenant", f.Tenant}, {"token_id", f.TokenID}, {"remote", f.Remote}, {"action", f.Action}, {"reason", f.Reason},
	} {
		if field.value != "" {
			e = e.Str(field.name, field.value)
		}
	}
	if f.UID != nil {
		e = e.Uint32("uid", *f.UID)
	}
	e.Msg(string(event))
}
